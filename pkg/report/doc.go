// Package report is the record of how long a run took: its phases, their share of the total, the hold of
// the cluster and the cut within it, and what the run worked on. It renders the record as a table, as
// Markdown and as JSON, next to the published figures if asked.
//
// The package is pure: it reads no clock and does no I/O but writing to the writer that it is given. All
// durations come from the phase engine, which takes them from the monotonic clock.
package report
