// Package copyplan plans the copies of a backup's snapshots into another region or account: which are made in which
// order, how much data each of them moves and why, and how long that takes at least. It makes no calls.
//
// EC2's rules for copies are in it: at most Slots at a time into a region, one at a time of a volume, a copy of what
// has changed only after a whole one that still exists under the same key, and the throughput of copies with a
// duration.
package copyplan
