package sweep

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
	tickInterval  = 25 * time.Millisecond
	showInterval  = 200 * time.Millisecond
	retryInterval = 200 * time.Millisecond // of questions to PD
	// saveInterval is how much work a killed run may have to do again.
	saveInterval = 2 * time.Second
	// firstLimit bounds the first call to a region, or a third of Config.Stall does: 10,000 changed keys take
	// TiKV 0.4 s, and a region whose majority is gone never answers. Each next call to it gets twice the
	// time, up to lastLimit.
	firstLimit = 2 * time.Minute
	lastLimit  = time.Hour
)

// Sweep calls every region of the key space. One goroutine, that of Run, owns all of it; calls, look-ups and
// writes of progress run beside it and answer through channels.
//
// It is over when the ranges of the calls that succeeded cover the key space, whatever PD lists: a store carries
// a call out only if the range and epoch are those of the region.
type Sweep struct {
	cfg Config
	run Run
	s   *phase.Scope

	queues map[cluster.StoreID]*storeQueue
	taken  map[cluster.RegionID]time.Time // waits in a queue (zero), or is being called since then
	parked map[cluster.RegionID]parked

	answers chan answer
	beside  sync.WaitGroup // all that answers through a channel
	routes  lookups
	resends job
	saves   job

	finished int
	retries  int64
	slowest  time.Duration // of the calls that succeeded
	working  map[cluster.StoreID]working
	moved    time.Time // when a region was done last
	asked    time.Time // when stores were asked to elect again
	shown    time.Time
	dirty    bool
}

// parked is a region that was not done, and waits for its route to be looked up.
type parked struct {
	call regionCall
	due  time.Time
}

// working is from when to when a store was called.
type working struct{ from, to time.Time }

// answer is how a call ended.
type answer struct {
	call  regionCall
	store cluster.StoreID
	sent  time.Time
	err   error
}

// New makes a sweep. Run runs it, once.
func New(cfg Config, run Run) *Sweep {
	now := time.Now()
	return &Sweep{
		cfg: cfg, run: run,
		queues: map[cluster.StoreID]*storeQueue{}, taken: map[cluster.RegionID]time.Time{},
		parked:  map[cluster.RegionID]parked{},
		working: map[cluster.StoreID]working{},
		answers: make(chan answer), routes: newLookups(), resends: newJob(), saves: newJob(), moved: now, asked: now,
	}
}

// Retries counts the calls that had to be sent again. It is valid when Run has returned.
func (w *Sweep) Retries() int64 { return w.retries }

// StoreTimes is how long each store worked: from its first call to the last one that succeeded. It is valid when Run
// has returned.
func (w *Sweep) StoreTimes() map[cluster.StoreID]time.Duration {
	out := make(map[cluster.StoreID]time.Duration, len(w.working))
	for id, span := range w.working {
		out[id] = span.to.Sub(span.from)
	}
	return out
}

// worked notes a call that succeeded.
func (w *Sweep) worked(a answer, now time.Time) {
	span, known := w.working[a.store]
	if !known || a.sent.Before(span.from) {
		span.from = a.sent
	}
	span.to = now
	w.working[a.store] = span
}

// Run calls every region that Config.Done does not hold yet, until it holds all keys. No call is under way when
// it returns.
func (w *Sweep) Run(ctx context.Context, s *phase.Scope) error {
	ctx, cancel := context.WithCancel(ctx)
	w.s = s
	defer w.beside.Wait()
	defer cancel()
	err := w.loop(ctx)
	w.s.Reached(int64(w.finished))
	return err
}

func (w *Sweep) loop(ctx context.Context) error {
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	w.lookUp(ctx, nil)
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
				w.cfg.Log.Warn("progress is not written; trying again", zap.Error(err))
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
func (w *Sweep) over() bool { return w.idle() && w.cfg.Done.Whole() }

// idle reports whether no region waits for anything.
func (w *Sweep) idle() bool { return len(w.taken) == 0 && len(w.parked) == 0 }

// pump sends what a store may get now.
func (w *Sweep) pump(ctx context.Context, q *storeQueue) {
	now := time.Now()
	for c, ok := q.next(now); ok; c, ok = q.next(now) {
		w.taken[c.region.ID] = now
		w.beside.Go(func() {
			a := answer{call: c, store: q.store, sent: time.Now(), err: w.one(ctx, q.store, c)}
			select {
			case w.answers <- a:
			case <-ctx.Done():
			}
		})
	}
}

func (w *Sweep) one(ctx context.Context, store cluster.StoreID, c regionCall) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	keys, err := tikv.DecodeRange(c.region.Keys)
	if err != nil {
		return err
	}
	if err := w.run.CheckHeld(ctx); err != nil {
		return err
	}
	f := w.cfg.Flashback
	f.Region, f.Keys = c.region, keys
	return w.cfg.Call(ctx, w.run.Address(store), f)
}

// tick does what is due: look-ups, questions to PD, progress shown and written, and the end of patience.
func (w *Sweep) tick(ctx context.Context, now time.Time) error {
	if err := w.run.Interrupted(); err != nil {
		return err
	}
	for _, q := range w.queues {
		w.pump(ctx, q)
	}
	w.lookUpDue(ctx, now)
	if still := now.Sub(w.moved); still > max(w.cfg.Stall, 4*w.slowest) {
		return w.stuck("nothing changed for "+w.cfg.Stall.String(), nil)
	} else if third := w.cfg.Stall / 3; still > third && now.Sub(w.asked) > third {
		w.asked = now
		w.run.AskAgain(w.leaderless())
	}
	if w.troubled() && w.resends.due(now, retryInterval) {
		w.begin(&w.resends, func() error { return w.run.Resend(ctx) })
	}
	if w.dirty && w.saves.due(now, max(saveInterval, 20*w.saves.took)) {
		save := w.cfg.Save()
		w.dirty = false
		w.begin(&w.saves, func() error { return save(ctx) })
	}
	if now.Sub(w.shown) > showInterval {
		w.shown = now
		w.s.Reached(int64(w.finished))
	}
	return nil
}
