// Package marks notes, right before a backup holds its cluster, where the raft log of each region ends, so that a
// restore can prove of most regions that nothing was written after the backup ts: those need no flashback, which reads
// every version of every key.
//
// A mark is of one region: version, term and index of the last entry of a log whose last entry is committed, as one
// store had it on its disk. After all marks a timestamp T is taken from PD, and the hold begins only when the resolved
// ts has passed T by Margin. A restore finds a region unchanged if its log still ends there (see Unchanged), and if no
// key of it is locked. Why a flashback would then change nothing is written down in docs/marks.md, with the conditions'
// numbers that Unchanged names.
//
// A mark is never needed: where there is none, or where it cannot be trusted, the region is flashed back.
package marks
