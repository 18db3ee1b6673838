package resolve

import (
	"context"
	"errors"
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/sweep"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// The longest that a region may take on average, and what there is to begin with: a prepare is one entry of the
// raft log after what is in it, a flashback rewrites keys at some 40 µs each.
const (
	sweepBase     = 30 * time.Minute
	prepareEach   = 500 * time.Millisecond
	flashbackEach = 5 * time.Second
)

// prepare blocks every region of the key space for everything but this flashback. What is flashed back already
// is left alone: it would stay blocked for ever.
func (r *Resolver) prepare(ctx context.Context, s *phase.Scope) error {
	for _, done := range r.record.flashed.List() {
		r.record.prepared.Add(done)
	}
	ctx, cancel := r.bounded(ctx, "prepare", sweepBase, prepareEach)
	defer cancel()
	if err := r.checkGC(ctx); err != nil {
		return err
	}
	begin := time.Now()
	err := r.sweep(ctx, s, "prepare", "prepare", r.record.prepared, r.tikv.PrepareFlashback)
	r.flashing += time.Since(begin)
	return r.record.noted(ctx, err)
}

// flashback returns every key to the backup ts. A region that says that it is not prepared is prepared
// again with the same timestamps: if it was done already, both calls change nothing.
func (r *Resolver) flashback(ctx context.Context, s *phase.Scope) error {
	ctx, cancel := r.bounded(ctx, "flash back", sweepBase, flashbackEach)
	defer cancel()
	if err := r.checkGC(ctx); err != nil {
		return err
	}
	begin := time.Now()
	err := r.sweep(ctx, s, "flashback", "flash back", r.record.flashed, func(ctx context.Context, address string, f tikv.Flashback) error {
		err := r.flashRegion(ctx, address, f)
		if err == nil {
			r.flashes.Add(1)
		}
		return err
	})
	r.flashing += time.Since(begin)
	if err = r.record.noted(ctx, err); err != nil {
		return err
	}
	r.scanned = nil
	r.noteSaved(s)
	return r.checkGC(ctx)
}

func (r *Resolver) flashRegion(ctx context.Context, address string, f tikv.Flashback) error {
	err := r.tikv.Flashback(ctx, address, f)
	var region *tikv.RegionError
	if !errors.As(err, &region) || region.Kind != tikv.RegionNotPrepared {
		return err
	}
	for _, call := range []func(context.Context, string, tikv.Flashback) error{r.tikv.PrepareFlashback, r.tikv.Flashback} {
		// The answer may be old: another run may have finished since, and the region serve.
		if err := r.cfg.Fence.Check(ctx); err != nil {
			return err
		}
		if err := call(ctx, address, f); err != nil {
			return err
		}
	}
	return nil
}

// noteSaved says how much of the flashback was not needed. How many keys it has taken back, TiKV does not say.
func (r *Resolver) noteSaved(s *phase.Scope) {
	r.stats.Flashed = max(0, len(r.plan.Leaders)-r.record.unchanged)
	if r.record.unchanged == 0 {
		return
	}
	if n := r.flashes.Load(); n > 0 {
		r.stats.SavedSeconds = r.flashing.Seconds() / float64(n) * float64(r.record.unchanged)
	}
	s.Note("%d regions were taken back, %d were unchanged; to take back all would have taken some %.1f s more", r.stats.Flashed, r.record.unchanged, r.stats.SavedSeconds)
}

// sweep calls every region that done does not hold yet, until it holds all keys. The time of each store is noted as part.
func (r *Resolver) sweep(
	ctx context.Context, s *phase.Scope, part, verb string, done *sweep.Coverage,
	call func(context.Context, string, tikv.Flashback) error,
) error {
	w := sweep.New(sweep.Config{
		Cluster: r.cfg.Cluster, Verb: verb, Call: call, Done: done, Stall: r.cfg.Stall, Log: r.log, Again: r.cfg.resumeHint(),
		Flashback: tikv.Flashback{Version: r.cfg.BackupTS, StartTS: r.record.stamps.Start, CommitTS: r.record.stamps.Commit},
		Save: func() func(context.Context) error {
			p := r.record.snapshot()
			return func(ctx context.Context) error { return r.record.save(ctx, p) }
		},
	}, &sweepRun{r: r})
	err := w.Run(ctx, s)
	r.stats.Retries += w.Retries()
	for id, took := range w.StoreTimes() {
		r.cfg.Times.Note(id, part, took)
	}
	return err
}
