// Package history reads what all runs in a storage left behind: the list of backups, and of each run's report what a
// trend or a metric needs. Objects are read in parallel, each once as long as its version stays the same, and only a
// small summary of each report is kept, so that ten thousand runs of hundreds of stores need little memory.
package history
