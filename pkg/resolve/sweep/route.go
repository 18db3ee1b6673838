package sweep

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// fewLookups is up to how many ranges are looked up one by one; for more, one scan of all costs PD less.
const fewLookups = 64

// lookups reads regions and their leaders from PD, one question at a time.
type lookups struct {
	found   chan lookup // holds one, so that the sweep may end first
	running bool
	next    time.Time
	first   bool  // nothing was found yet
	err     error // of the last question
}

// lookup is what PD answered.
type lookup struct {
	asked   []cluster.RegionID // parked regions that it is for
	regions []cluster.Region
	took    time.Duration
	err     error
}

func newLookups() lookups { return lookups{found: make(chan lookup, 1), first: true} }

// lookUpDue asks for the routes of the parked regions that are due, and for what no route has taken.
func (w *Sweep) lookUpDue(ctx context.Context, now time.Time) {
	if w.routes.running || now.Before(w.routes.next) {
		return
	}
	if w.idle() {
		w.lookUp(ctx, nil)
		return
	}
	var due []cluster.RegionID
	for id, p := range w.parked {
		if !now.Before(p.due) {
			due = append(due, id)
		}
	}
	if len(due) > 0 {
		w.lookUp(ctx, due)
	}
}

// lookUp reads the regions where the given ones were from PD; all regions if none is given.
func (w *Sweep) lookUp(ctx context.Context, asked []cluster.RegionID) {
	ranges := []cluster.KeyRange{{}}
	if n := len(asked); n > 0 && n <= fewLookups {
		ranges = ranges[:0]
		for _, id := range asked {
			ranges = append(ranges, w.parked[id].call.region.Keys)
		}
	}
	w.routes.running = true
	w.beside.Go(func() {
		l, begin := lookup{asked: asked}, time.Now()
		for _, keys := range ranges {
			regions, err := w.run.Regions(ctx, keys)
			if err != nil {
				l.err = err
				break
			}
			l.regions = append(l.regions, regions...)
		}
		l.took = time.Since(begin)
		w.routes.found <- l
	})
}

// route puts the regions that are not done into the queues of their leaders.
func (w *Sweep) route(ctx context.Context, l lookup) {
	now := time.Now()
	w.routes.running, w.routes.next, w.routes.err = false, now.Add(max(retryInterval/4, l.took)), l.err
	if l.err != nil {
		w.cfg.Log.Warn("regions cannot be read", zap.Error(l.err))
		w.routes.next = now.Add(max(retryInterval, l.took))
		return
	}
	before := make(map[cluster.RegionID]regionCall, len(l.asked))
	for _, id := range l.asked {
		if p, ok := w.parked[id]; ok {
			before[id] = p.call
			delete(w.parked, id)
		}
	}
	if w.routes.first && len(l.regions) > 0 {
		w.count(l.regions)
	}
	for _, reg := range l.regions {
		w.place(reg, before[reg.ID], now)
	}
	if len(l.asked) == 0 && w.idle() {
		w.routes.next = now.Add(max(retryInterval, l.took)) // PD lists no region where keys are missing
	}
	for _, q := range w.queues {
		w.pump(ctx, q)
	}
}

// count finds how much there is to do; a run that resumes begins with what was done.
func (w *Sweep) count(regions []cluster.Region) {
	w.routes.first = false
	for _, reg := range regions {
		if w.cfg.Done.Contains(reg.Keys) {
			w.finished++
		}
	}
	w.s.Expect(int64(len(regions)), "regions")
	if w.finished > 0 {
		w.s.Note("%d of %d regions need no call", w.finished, len(regions))
	}
}

// place gives a region to the store that leads it, unless it is done, waits or is being called.
func (w *Sweep) place(reg cluster.Region, before regionCall, now time.Time) {
	if _, taken := w.taken[reg.ID]; taken || w.cfg.Done.Contains(reg.Keys) {
		return
	}
	if _, waits := w.parked[reg.ID]; waits {
		return
	}
	c := regionCall{region: reg, tries: before.tries, limit: max(before.limit, min(firstLimit, w.cfg.Stall/3))}
	store := reg.Leader.Store
	if store == 0 || w.run.Address(store) == "" {
		c.tries++
		c.why = errors.New("PD knows no leader")
		w.park(c, now)
		return
	}
	q := w.queues[store]
	if q == nil {
		q = newStoreQueue(store)
		w.queues[store] = q
	}
	w.queue(q, c)
}
