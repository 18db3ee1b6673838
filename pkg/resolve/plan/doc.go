// Package plan chooses which store leads which region of a cluster whose stores were copied at slightly
// different times. It reads nothing and changes nothing: a plan is a pure function of what the stores reported.
//
// It refuses what it cannot prove: the chosen leaders must cover the key space exactly once, every region must
// have a majority of its replicas, and the peers of a region must agree on its version unless the newer one
// explains the difference. A wrong choice here loses data without an error.
package plan
