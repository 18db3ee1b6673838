// Package mvcc is TiKV's transaction layer as pure functions: Percolator's two-phase commit, lock
// resolution, snapshot reads and flashback over three column families.
//
// A request and what the store holds go in, a response and the mutations to replicate come out. Nothing here
// writes, waits or reads a clock. The caller serialises commands on a key, checks that the keys belong to
// the region, and applies all mutations of one command or none.
//
// The largest timestamp that the store has been read at, which asynchronous and one-phase commits get theirs from, is the
// caller's to keep.
//
// It never imports the testing package; it belongs to the stand-in in tikvtest.
package mvcc
