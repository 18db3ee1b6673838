// Package history reads what all runs left in a storage: the list of backups, and from each run's report what a trend
// or a metric needs. Objects are read in parallel, each version once, and only a small summary of each report is kept,
// so that ten thousand runs of hundreds of stores need little memory.
package history
