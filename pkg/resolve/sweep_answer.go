package resolve

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
	leastPark = 50 * time.Millisecond
	mostPark  = 2 * time.Second
)

// take notes how a call ended and sends the store the next one. The error is one that no retry can mend.
func (w *sweep) take(ctx context.Context, a answer) error {
	now, l, t := time.Now(), w.lanes[a.store], a.task
	delete(w.taken, t.region.ID)
	if a.err == nil {
		l.answered(a.sent, now)
		w.done.add(rangeOf(t.region))
		w.finished++
		w.moved, w.dirty, w.slowest = now, true, max(w.slowest, now.Sub(a.sent))
		w.pump(ctx, l)
		return nil
	}
	if ctx.Err() == nil { // or run ends, and says what is not done
		return w.refused(ctx, l, a)
	}
	l.wrong()
	return nil
}

// refused notes why a region was not done, and when it is to be tried again.
func (w *sweep) refused(ctx context.Context, l *lane, a answer) error {
	now, t := time.Now(), a.task
	w.r.stats.Retries++
	t.tries++
	t.why = a.err
	var region *tikv.RegionError
	switch {
	case w.r.cfg.Fence.Lost():
		return failure.Annotate(a.err, w.verb, w.r.cfg.Cluster.String())
	case errors.As(a.err, &region) && region.Kind == tikv.RegionBusy:
		l.busy(a.sent, now, region.Backoff)
		w.queue(l, t)
	case region != nil:
		l.wrong()
		w.park(t, now)
	case errors.Is(a.err, context.DeadlineExceeded):
		l.busy(a.sent, now, 0)
		t.limit = min(2*t.limit, lastLimit)
		w.park(t, now)
	case final(a.err):
		return failure.Annotate(a.err, w.verb, "region "+t.region.ID.String())
	default:
		l.broke(a.sent, now)
		w.parkUntil(t, l.until)
		for _, waiting := range l.drain() {
			delete(w.taken, waiting.region.ID)
			waiting.why = a.err
			w.parkUntil(waiting, l.until)
		}
	}
	w.pump(ctx, l)
	return nil
}

func (w *sweep) queue(l *lane, t task) {
	w.taken[t.region.ID] = time.Time{}
	l.add(t)
}

func (w *sweep) park(t task, now time.Time) {
	w.parkUntil(t, now.Add(min(leastPark<<min(t.tries, 10), mostPark)))
}

func (w *sweep) parkUntil(t task, due time.Time) {
	w.parked[t.region.ID] = parked{task: t, due: due}
}

// final reports whether an error of one call ends the sweep: only what no retry can mend.
func final(err error) bool {
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
func (w *sweep) troubled() bool {
	if len(w.parked) > 0 {
		return true
	}
	for _, l := range w.lanes {
		if l.broken {
			return true
		}
	}
	return false
}

// leaderless lists the stores that PD takes for the leaders of regions that are refused.
func (w *sweep) leaderless() []cluster.StoreID {
	seen := map[cluster.StoreID]bool{}
	var stores []cluster.StoreID
	for _, p := range w.parked {
		var region *tikv.RegionError
		store := p.task.region.Leader.Store
		if errors.As(p.task.why, &region) && region.Kind == tikv.RegionStale && !seen[store] {
			seen[store] = true
			stores = append(stores, store)
		}
	}
	return stores
}

// stuck says what is not done and why.
func (w *sweep) stuck(why string, cause error) error {
	var items []string
	now := time.Now()
	tried := func(t task) {
		if t.why != nil {
			items = append(items, fmt.Sprintf("region %s (%v)", t.region.ID, t.why))
		}
	}
	for _, p := range w.parked {
		tried(p.task)
	}
	for _, l := range w.lanes {
		for _, t := range l.queue {
			tried(t)
		}
	}
	for id, since := range w.taken {
		if !since.IsZero() {
			items = append(items, fmt.Sprintf("region %s (no answer for %s)", id, now.Sub(since).Round(time.Second)))
		}
	}
	if w.still() {
		for _, hole := range w.done.missing() {
			items = append(items, fmt.Sprintf("keys %s (PD lists no region)", hole))
		}
	}
	text := fmt.Sprintf("%d regions are done and %d are not", w.finished, len(w.parked)+len(w.taken))
	if cause == nil {
		return failure.New(failure.Limited, w.verb, w.r.cfg.Cluster.String(), "%s, %s: %s", text, why, list(items)).
			WithHint("look at the stores' logs for these regions, then run it again: it goes on where it stopped")
	}
	return failure.New(failure.Limited, w.verb, w.r.cfg.Cluster.String(), "%s: %s: %w", text, list(items), cause)
}
