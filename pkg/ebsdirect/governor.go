package ebsdirect

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
)

// Limits are calls per second, by AWS's quotas. A zero field is AWS's default.
type Limits struct {
	Reads, Puts                 float64 // GetSnapshotBlock, PutSnapshotBlock in the account: 1,000
	SnapshotReads, SnapshotPuts float64 // on one snapshot: 1,000
	Lists                       float64 // ListSnapshotBlocks and ListChangedBlocks together: 50
	Starts, Completes           float64 // StartSnapshot, CompleteSnapshot: 10
}

// Stats are numbers of calls.
type Stats struct {
	Lists, Reads, Puts, Starts, Completes int64
	// Throttled is how many of them were refused because of a rate.
	Throttled int64
}

// queue are the calls that share one quota.
type queue int

const (
	lists queue = iota
	reads
	puts
	starts
	completes
	queues
)

// MaxInFlight is the most calls that are sent at a time, minInFlight the least that are allowed.
const (
	MaxInFlight = 256
	minInFlight = 64
)

// spareCalls is how many calls more are in flight than the rate needs at the usual latency, so that slow ones do not
// lower it.
const spareCalls = 2

// governor keeps the calls of a client below the rates of the account and of each snapshot, which it lowers where AWS
// throttles.
type governor struct {
	clock     ebs.Clock
	accounts  [queues]*lane
	perObject [queues]float64 // limit of one snapshot; 0 is none

	mu        sync.Mutex // guards all below, and the limiters
	snapshots map[lanesOf]*lane
	latency   [queues]time.Duration // moving average
	counts    [queues]int64
	slowed    int64
	inFlight  *gate
}

type lanesOf struct {
	queue queue
	id    cluster.SnapshotID
}

func newGovernor(clock ebs.Clock, l Limits) *governor {
	now := clock.Now()
	g := &governor{clock: clock, snapshots: map[lanesOf]*lane{}, inFlight: &gate{most: minInFlight}}
	for q, limit := range [queues]float64{
		lists: cmp.Or(l.Lists, 50), reads: cmp.Or(l.Reads, 1000), puts: cmp.Or(l.Puts, 1000),
		starts: cmp.Or(l.Starts, 10), completes: cmp.Or(l.Completes, 10),
	} {
		g.accounts[q] = newLane(limit, now)
	}
	g.perObject[reads] = cmp.Or(l.SnapshotReads, 1000)
	g.perObject[puts] = cmp.Or(l.SnapshotPuts, 1000)
	return g
}

// enter waits until a call may be sent. done must be called with whose rate its answer lowers. A call waits at its
// snapshot first: a slow snapshot keeps no place in flight and no turn of the account.
func (g *governor) enter(ctx context.Context, q queue, id cluster.SnapshotID) (done func(scope), err error) {
	own := g.lane(q, id)
	if own != nil {
		if err := g.pass(ctx, own); err != nil {
			return nil, err
		}
	}
	passed := g.clock.Now() // at the snapshot's rate of this time
	if err := g.inFlight.enter(ctx); err != nil {
		return nil, err
	}
	if err := g.pass(ctx, g.accounts[q]); err != nil {
		g.inFlight.leave()
		return nil, err
	}
	sent := g.clock.Now()
	return func(slow scope) {
		g.answered(q, own, passed, sent, slow)
		g.inFlight.leave()
	}, nil
}

// lane is a snapshot's own, or nil if the API has no limit for one snapshot.
func (g *governor) lane(q queue, id cluster.SnapshotID) *lane {
	if g.perObject[q] == 0 {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	key := lanesOf{q, id}
	if g.snapshots[key] == nil {
		g.snapshots[key] = newLane(g.perObject[q], g.clock.Now())
	}
	return g.snapshots[key]
}

func (g *governor) answered(q queue, own *lane, passed, sent time.Time, slow scope) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.clock.Now()
	g.counts[q]++
	if slow != noRate {
		g.slowed++
	}
	all := g.accounts[q].limiter
	switch {
	case slow == snapshot && own != nil:
		own.limiter.throttled(now, passed)
	case slow != noRate:
		all.throttled(now, sent)
	default:
		all.answered(now)
		if own != nil {
			own.limiter.answered(now)
		}
		g.latency[q] += (now.Sub(sent) - g.latency[q]) / 16
	}
	calls := 0.0
	for _, q := range []queue{reads, puts} {
		if g.counts[q] > 0 {
			calls += g.accounts[q].limiter.rate * g.latency[q].Seconds()
		}
	}
	g.inFlight.allow(min(MaxInFlight, max(minInFlight, int(calls*spareCalls))))
}

func (g *governor) stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return Stats{
		Lists: g.counts[lists], Reads: g.counts[reads], Puts: g.counts[puts], Starts: g.counts[starts],
		Completes: g.counts[completes], Throttled: g.slowed,
	}
}
