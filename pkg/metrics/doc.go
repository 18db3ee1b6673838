// Package metrics is what tisnap shows to Prometheus: the names, and the metrics of one run, which a run pushes to a
// gateway or leaves in a file for node_exporter. The metrics of a whole storage are package exporter's, with the same
// names where they mean the same.
package metrics
