package sweep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// The waits of a region before its route is looked up again.
const (
	minPark = 50 * time.Millisecond
	maxPark = 2 * time.Second
)

// take notes how a call ended and sends the store the next one. The error is a permanent one.
func (w *Sweep) take(ctx context.Context, a answer) error {
	now, q, c := time.Now(), w.queues[a.store], a.call
	delete(w.taken, c.region.ID)
	if a.err == nil {
		q.answered(a.sent, now)
		w.worked(a, now)
		w.cfg.Done.Add(c.region.Keys)
		w.finished++
		w.moved, w.dirty, w.slowest = now, true, max(w.slowest, now.Sub(a.sent))
		w.pump(ctx, q)
		return nil
	}
	if ctx.Err() == nil { // or run ends, and lists what is not done
		return w.refused(ctx, q, a)
	}
	q.refused()
	return nil
}

// refused notes why a region was not done, and when it is to be tried again.
func (w *Sweep) refused(ctx context.Context, q *storeQueue, a answer) error {
	now, c := time.Now(), a.call
	w.retries++
	c.tries++
	c.why = a.err
	var region *tikv.RegionError
	switch {
	case w.run.Lost():
		return failure.Annotate(a.err, w.cfg.Verb, w.cfg.Cluster.String())
	case errors.As(a.err, &region) && region.Kind == tikv.RegionBusy:
		q.busy(a.sent, now, region.Backoff)
		w.queue(q, c)
	case region != nil:
		q.refused()
		w.park(c, now)
	case errors.Is(a.err, context.DeadlineExceeded):
		q.busy(a.sent, now, 0)
		c.limit = min(2*c.limit, lastLimit)
		w.park(c, now)
	case permanent(a.err):
		return failure.Annotate(a.err, w.cfg.Verb, "region "+c.region.ID.String())
	default:
		q.unanswered(a.sent, now)
		w.parkUntil(c, q.until)
		for _, waiting := range q.drain() {
			delete(w.taken, waiting.region.ID)
			waiting.why = a.err
			w.parkUntil(waiting, q.until)
		}
	}
	w.pump(ctx, q)
	return nil
}

func (w *Sweep) queue(q *storeQueue, c regionCall) {
	w.taken[c.region.ID] = time.Time{}
	q.add(c)
}

func (w *Sweep) park(c regionCall, now time.Time) {
	w.parkUntil(c, now.Add(min(minPark<<min(c.tries, 10), maxPark)))
}

func (w *Sweep) parkUntil(c regionCall, due time.Time) {
	w.parked[c.region.ID] = parked{call: c, due: due}
}

// permanent reports whether an error of one call ends the sweep: only a permanent one does.
func permanent(err error) bool {
	var region *tikv.RegionError
	if errors.As(err, &region) {
		return false
	}
	switch failure.KindOf(err) {
	case failure.Unknown, failure.Limited, failure.Conflict, failure.Unready, failure.NotFound:
		return false
	default:
		return true
	}
}

// troubled reports whether a store may have restarted or lost its leaders.
func (w *Sweep) troubled() bool {
	if len(w.parked) > 0 {
		return true
	}
	for _, q := range w.queues {
		if q.unreachable {
			return true
		}
	}
	return false
}

// leaderless lists the stores that PD takes for the leaders of regions that are refused.
func (w *Sweep) leaderless() []cluster.StoreID {
	seen := map[cluster.StoreID]bool{}
	var stores []cluster.StoreID
	for _, p := range w.parked {
		var region *tikv.RegionError
		store := p.call.region.Leader.Store
		if errors.As(p.call.why, &region) && region.Kind == tikv.RegionStale && !seen[store] {
			seen[store] = true
			stores = append(stores, store)
		}
	}
	return stores
}

// stuck reports what is not done and why.
func (w *Sweep) stuck(why string, cause error) error {
	var items []string
	now := time.Now()
	tried := func(c regionCall) {
		if c.why != nil {
			items = append(items, fmt.Sprintf("region %s (%v)", c.region.ID, c.why))
		}
	}
	for _, p := range w.parked {
		tried(p.call)
	}
	for _, q := range w.queues {
		for _, c := range q.calls {
			tried(c)
		}
	}
	for id, since := range w.taken {
		if !since.IsZero() {
			items = append(items, fmt.Sprintf("region %s (no answer for %s)", id, now.Sub(since).Round(time.Second)))
		}
	}
	switch {
	case w.routes.err != nil:
		items = append([]string{fmt.Sprintf("PD's regions cannot be read (%v)", w.routes.err)}, items...)
	case w.idle():
		for _, hole := range w.cfg.Done.Missing() {
			items = append(items, fmt.Sprintf("keys %s (PD lists no region)", hole))
		}
	}
	text := fmt.Sprintf("%d regions are done and %d are not", w.finished, len(w.parked)+len(w.taken))
	if cause == nil {
		return failure.New(failure.Limited, w.cfg.Verb, w.cfg.Cluster.String(), "%s, %s: %s", text, why,
			failure.List(items)).
			WithHint("look at the stores' logs for these regions, then %s", w.cfg.Again)
	}
	return failure.New(failure.Limited, w.cfg.Verb, w.cfg.Cluster.String(), "%s: %s: %w", text, failure.List(items),
		cause)
}
