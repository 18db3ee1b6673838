// Package restore creates a cluster from a sealed backup: load, preflight, create cluster, restore volumes, start TiKV,
// resolve data, start TiDB. restore.go reads like the runbook; each phase has its own file.
//
// Guarantees: nothing is changed before all checks have passed. PD is marked recovering, and its oracle raised above
// every timestamp in the data, before the first TiKV starts. A failed run deletes what it made, unless it must keep it,
// and reports what is left.
package restore
