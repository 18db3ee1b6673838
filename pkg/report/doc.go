// Package report is the record of how long a run took: its phases, their share of the total, the hold of the cluster
// and the cut within it, and the cluster's size. It renders the record as a table, Markdown or JSON, next to the
// published figures on request.
//
// The package is pure: it reads no clock, and its only I/O is writing to the given writer. All durations come from the
// phase engine, which measures them with the monotonic clock.
package report
