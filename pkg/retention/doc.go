// Package retention decides which backups of a cluster are kept: so many of the last, one for each of so many hours,
// days, weeks, months and years, those of a time, and those with a tag. The rules are those of restic forget
// (https://restic.readthedocs.io/en/stable/060_forget.html). It has no clock and does no I/O.
package retention
