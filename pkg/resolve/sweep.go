package resolve

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// The clocks of a sweep.
const (
	sweepTick  = 25 * time.Millisecond
	shownEvery = 200 * time.Millisecond
	// savedEvery is how much work a killed run may have to do again.
	savedEvery = 2 * time.Second
	// firstLimit bounds the first call to a region, or a third of Config.Stall does: 10,000 changed keys take
	// TiKV 0.4 s, and a region whose majority is gone never answers. Each next call to it gets twice the
	// time, up to lastLimit.
	firstLimit = 2 * time.Minute
	lastLimit  = time.Hour
)

// sweep is one kind of call to every region of the key space. One goroutine, that of run, owns all of it; calls,
// look-ups and writes of progress run beside it and answer through channels.
//
// It is over when the ranges of the calls that succeeded cover the key space, whatever PD lists: a store carries
// a call out only if the range and epoch are those of the region.
type sweep struct {
	r    *Resolver
	s    *phase.Scope
	verb string
	call func(ctx context.Context, address string, f tikv.Flashback) error
	done *coverage

	lanes  map[cluster.StoreID]*lane
	taken  map[cluster.RegionID]time.Time // waits in a lane (zero), or is being called since then
	parked map[cluster.RegionID]parked

	answers chan answer
	beside  sync.WaitGroup // all that answers through a channel
	routes  lookups
	resends errand
	saves   errand

	finished int
	slowest  time.Duration // of the calls that succeeded
	moved    time.Time     // when a region was done last
	nudged   time.Time
	shown    time.Time
	dirty    bool
}

// parked is a region that was not done, and waits for its route to be looked up.
type parked struct {
	task task
	due  time.Time
}

// answer is how a call ended.
type answer struct {
	task  task
	store cluster.StoreID
	sent  time.Time
	err   error
}

// sweep calls every region that done does not hold yet, until it holds all keys.
func (r *Resolver) sweep(
	ctx context.Context, s *phase.Scope, verb string, done *coverage,
	call func(context.Context, string, tikv.Flashback) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	now := time.Now()
	w := &sweep{
		r: r, s: s, verb: verb, call: call, done: done,
		lanes: map[cluster.StoreID]*lane{}, taken: map[cluster.RegionID]time.Time{}, parked: map[cluster.RegionID]parked{},
		answers: make(chan answer), routes: newLookups(), resends: newErrand(), saves: newErrand(), moved: now, nudged: now,
	}
	defer w.beside.Wait()
	defer cancel()
	err := w.run(ctx)
	w.s.Reached(int64(w.finished))
	return err
}

func (w *sweep) run(ctx context.Context) error {
	ticker := time.NewTicker(sweepTick)
	defer ticker.Stop()
	w.look(ctx, nil)
	for !w.over() {
		var err error
		select {
		case a := <-w.answers:
			err = w.take(ctx, a)
		case l := <-w.routes.found:
			w.route(ctx, l)
		case err = <-w.resends.ended:
			w.resends.done(time.Now())
		case err = <-w.saves.ended:
			w.saves.done(time.Now())
			if err != nil && !failure.Is(err, failure.Conflict) {
				w.r.log.Warn("progress is not written; trying again", zap.Error(err))
				w.dirty, err = true, nil
			}
		case now := <-ticker.C:
			err = w.tick(ctx, now)
		case <-ctx.Done():
			return w.stuck("", context.Cause(ctx))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// over reports whether nothing is left: no call is under way, and all keys are done.
func (w *sweep) over() bool { return w.still() && w.done.whole() }

// still reports whether no region waits for anything.
func (w *sweep) still() bool { return len(w.taken) == 0 && len(w.parked) == 0 }

// pump sends what a store may get now.
func (w *sweep) pump(ctx context.Context, l *lane) {
	now := time.Now()
	for t, ok := l.next(now); ok; t, ok = l.next(now) {
		w.taken[t.region.ID] = now
		w.beside.Go(func() {
			a := answer{task: t, store: l.store, sent: time.Now(), err: w.one(ctx, l.store, t)}
			select {
			case w.answers <- a:
			case <-ctx.Done():
			}
		})
	}
}

func (w *sweep) one(ctx context.Context, store cluster.StoreID, t task) error {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	keys, err := tikv.DecodeRange(rangeOf(t.region))
	if err != nil {
		return err
	}
	if err := w.r.cfg.Fence.Check(ctx); err != nil {
		return err
	}
	return w.call(ctx, w.r.address(store), tikv.Flashback{
		Region: t.region, Keys: keys, Version: w.r.cfg.BackupTS, StartTS: w.r.stamps.Start, CommitTS: w.r.stamps.Commit,
	})
}

// tick does what time brings: look-ups, questions to PD, progress shown and written, and the end of patience.
func (w *sweep) tick(ctx context.Context, now time.Time) error {
	if err := w.r.spoiled(); err != nil {
		return err
	}
	for _, l := range w.lanes {
		w.pump(ctx, l)
	}
	w.lookAgain(ctx, now)
	if idle := now.Sub(w.moved); idle > max(w.r.cfg.Stall, 4*w.slowest) {
		return w.stuck("nothing changed for "+w.r.cfg.Stall.String(), nil)
	} else if third := w.r.cfg.Stall / 3; idle > third && now.Sub(w.nudged) > third {
		w.nudged = now
		w.r.nudge(w.leaderless()) //nolint:contextcheck // the recovery outlives the step that asked
	}
	if w.troubled() && w.resends.due(now, again) {
		w.errand(&w.resends, func() error { return w.r.resend(ctx) })
	}
	if w.dirty && w.saves.due(now, max(savedEvery, 20*w.saves.took)) {
		p := w.r.snapshot()
		w.dirty = false
		w.errand(&w.saves, func() error { return w.r.save(ctx, p) })
	}
	if now.Sub(w.shown) > shownEvery {
		w.shown = now
		w.s.Reached(int64(w.finished))
	}
	return nil
}

// errand runs f beside the sweep; one at a time of its kind.
func (w *sweep) errand(e *errand, f func() error) {
	e.running, e.began = true, time.Now()
	w.beside.Go(func() { e.ended <- f() })
}

// errand is something that is done beside a sweep now and then.
type errand struct {
	ended   chan error // holds one, so that the sweep may end first
	running bool
	began   time.Time
	last    time.Time
	took    time.Duration
}

func newErrand() errand { return errand{ended: make(chan error, 1)} }

func (e *errand) done(now time.Time) { e.running, e.last, e.took = false, now, now.Sub(e.began) }

func (e *errand) due(now time.Time, every time.Duration) bool {
	return !e.running && now.Sub(e.last) >= every
}

func rangeOf(r cluster.Region) cluster.KeyRange { return cluster.KeyRange{Start: r.Start, End: r.End} }
