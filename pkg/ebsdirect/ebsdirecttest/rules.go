package ebsdirecttest

import (
	"time"

	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

// Config describes the service of an account.
type Config struct {
	Clock  timescale.Clock
	Faults *fault.Plan // asked at "ebs.GetSnapshotBlock" and so on; a code is "Code" or "Code/REASON"
	Rules  *Rules      // nil is DefaultRules
}

// Rules are the service's limits and habits, in virtual time.
type Rules struct {
	Account  map[string]float64 // calls per second by API; ListChangedBlocks counts as ListSnapshotBlocks
	Snapshot map[string]float64 // on one snapshot
	Burst    time.Duration      // of calls at these rates that may come at once
	Latency  ebstest.Span       // of every call

	BlocksInPage   int   // of the lists, whatever is asked for
	IndexesInPage  int64 // that one page covers: where there are none, it is empty and has a next
	BlockTokenLife time.Duration
	PageTokenLife  time.Duration
}

// DefaultRules are AWS's documented defaults, at once.
func DefaultRules() *Rules {
	return &Rules{
		Account: map[string]float64{
			getBlock: 1000, putBlock: 1000, listBlocks: 50, startSnapshot: 10, completeSnapshot: 10,
		},
		Snapshot:       map[string]float64{getBlock: 1000, putBlock: 1000},
		Burst:          100 * time.Millisecond,
		BlocksInPage:   10_000,
		IndexesInPage:  1 << 20,
		BlockTokenLife: 7 * 24 * time.Hour,
		PageTokenLife:  time.Hour,
	}
}

// prices are dollars for 1,000 calls.
func prices() map[string]float64 {
	return map[string]float64{listBlocks: 0.0006, listChanged: 0.0006, getBlock: 0.003, putBlock: 0.006}
}
