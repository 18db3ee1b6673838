// Package resolve brings crash-consistent stores to one consistent cluster at the backup ts: collect what
// every store holds, plan leaders, recover (elect them and apply their logs), and flash every key back.
//
// The plan is a pure function. It refuses what it cannot prove: the chosen leaders must cover the key space
// exactly once, every region must have a majority of its replicas, and the peers of a region must agree on
// its version unless the newer one explains the difference. A wrong guess here loses data without a word.
package resolve
