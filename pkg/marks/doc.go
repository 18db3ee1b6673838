// Package marks records, right before a backup holds its cluster, where the raft log of each region ends, so that a
// restore can prove for most regions that nothing was written after the backup ts: those need no flashback, which reads
// every version of every key.
//
// A region's mark has the version, term and index of its log's last entry, which must be committed, as one store had it
// on disk. After all marks a timestamp T is taken from PD, and the hold begins only once the resolved ts has passed T
// by Margin. A restore takes a region for unchanged if its log still ends there (see Unchanged) and none of its keys is
// locked. docs/marks.md proves that a flashback would then change nothing, and numbers the conditions that Unchanged
// lists.
//
// Marks are optional: a region without one, or with one that cannot be trusted, is flashed back.
package marks
