// Package exporter serves the content of a storage as metrics for Prometheus and as a page for a browser: which
// clusters have a backup and how old it is, how long runs take, who holds a lock, and the progress of current runs. It
// reads only the storage, at an interval, and serves what it read last. It changes nothing, and no request can make it
// do so.
package exporter
