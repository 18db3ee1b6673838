// Package br holds the tests of failures as the drop-in for br meets them: the jobs that TiDB Operator runs, each with the
// command line that it gives, and what they leave of the cluster, the snapshots and the storage.
//
// The names of the failures are those of the catalogue in ../README.md.
package br
