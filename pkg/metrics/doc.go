// Package metrics has the names of tisnap's Prometheus metrics, and the metrics of one run, which it pushes to a
// gateway or writes to a file for node_exporter. The metrics of a whole storage are package exporter's, with the same
// names where they mean the same.
package metrics
