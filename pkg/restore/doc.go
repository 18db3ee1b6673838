// Package restore makes a cluster from a sealed backup: load, preflight, create cluster, restore volumes,
// start TiKV, resolve data, start TiDB. restore.go reads like the runbook; each phase is in a file of its own.
//
// What it guarantees: nothing is changed before all checks have passed. PD is marked recovering, and its
// oracle raised above every timestamp in the data, before the first TiKV starts. A run that fails deletes
// what it made, unless it was asked to keep it, and says what is left.
package restore
