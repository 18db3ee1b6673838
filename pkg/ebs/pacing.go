package ebs

import (
	"context"
	"sync/atomic"
	"time"
)

// EC2 has token buckets per account, region and API: a burst of calls, then a rate per second. Each queue uses all but
// one token of a bucket, and refills slightly more slowly than EC2; other users' calls show up as throttling, which
// slows the queue down.
const (
	mutatingBurst, mutatingRate = 99, 4.98 // of 100 and 5: CreateSnapshots, CreateVolume and the deletes
	otherBurst, otherRate       = 49, 4.98 // of 50 and 5: mutating calls that EC2's list does not name
	pagedBurst, pagedRate       = 99, 19   // of 100 and 20: describes with filter or page
	listedBurst, listedRate     = 49, 9.5  // of 50 and 10: describes of ids without filter and page
)

// pacing keeps this process below EC2's token buckets, and deletes behind a cut.
type pacing struct {
	createSnapshots, deleteSnapshot, createVolume, deleteVolume *callQueue
	modifyVolume, enableFast, disableFast, createTags           *callQueue
	copySnapshot, shareSnapshot, lockSnapshot, unlockSnapshot   *callQueue

	listedSnapshots, pagedSnapshots *callQueue
	listedVolumes, pagedVolumes     *callQueue
	instances, modifications        *callQueue
	fastRestores, locks, status     *callQueue
	shares                          *callQueue

	gate *gate
}

func newPacing(clock Clock) pacing {
	usual := func() *callQueue { return newCallQueue(clock, mutatingBurst, mutatingRate) }
	other := func() *callQueue { return newCallQueue(clock, otherBurst, otherRate) }
	paged := func() *callQueue { return newCallQueue(clock, pagedBurst, pagedRate) }
	listed := func() *callQueue { return newCallQueue(clock, listedBurst, listedRate) }
	return pacing{
		createSnapshots: usual(), deleteSnapshot: usual(), createVolume: usual(), deleteVolume: usual(),
		createTags: usual(), modifyVolume: other(), enableFast: other(), disableFast: other(),
		copySnapshot: other(), shareSnapshot: usual(), lockSnapshot: other(), unlockSnapshot: other(),
		listedSnapshots: listed(), pagedSnapshots: paged(), listedVolumes: listed(), pagedVolumes: paged(),
		instances: paged(), modifications: paged(), fastRestores: paged(), locks: listed(), status: listed(),
		shares: listed(),
		gate:   &gate{},
	}
}

// priority orders calls that wait. Larger goes first.
type priority uint8

const (
	background priority = iota // deletes: they let a cut go first
	usual
	urgent // a cut: a cluster is held for it
)

// How a background call lets urgent ones go first: it checks again so often, and not for ever, so that it
// always comes to its end.
const (
	yieldPoll = 250 * time.Millisecond
	maxYield  = 5 * time.Minute
)

// gate keeps background calls back while urgent ones are under way.
type gate struct{ urgent atomic.Int64 }

// begin notes a call; the returned function ends it.
func (g *gate) begin(p priority) (end func()) {
	if p != urgent {
		return func() {}
	}
	g.urgent.Add(1)
	return func() { g.urgent.Add(-1) }
}

// yield lets urgent calls go first if p is background. It returns ctx's error if that ends before.
func (g *gate) yield(ctx context.Context, p priority, clock Clock) error {
	if p != background {
		return ctx.Err()
	}
	for end := clock.Now().Add(maxYield); g.urgent.Load() > 0 && clock.Now().Before(end); {
		if err := clock.Sleep(ctx, yieldPoll); err != nil {
			return err
		}
	}
	return ctx.Err()
}
