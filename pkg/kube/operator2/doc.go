// Package operator2 has what is specific to TiDB Operator 2.x: its Cluster, groups and instances, what a backup needs
// of them, what a restore makes of them, and the names and labels of the Operator's objects. It makes no calls.
package operator2
