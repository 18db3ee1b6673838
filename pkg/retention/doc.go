// Package retention decides which of a cluster's backups are kept: a number of the last, one for each of a number of
// hours, days, weeks, months and years, those within a time, and those with a tag. The rules are those of restic forget
// (https://restic.readthedocs.io/en/stable/060_forget.html). It has no clock and does no I/O.
package retention
