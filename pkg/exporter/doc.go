// Package exporter shows what is in a storage to Prometheus and to a person with a browser: which clusters have a
// backup and how old it is, how long runs take, who holds a lock, and how far a run under way has come. It reads the
// storage and nothing else, at an interval; what it serves is what it read last. It changes nothing, and no request can
// make it do so.
package exporter
