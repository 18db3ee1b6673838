package resolve

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/sweep"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// The maximum average time per region, and a fixed allowance: a prepare is one entry behind what is in the raft log,
// and a flashback rewrites keys at some 40 µs each.
const (
	sweepBase     = 30 * time.Minute
	prepareEach   = 500 * time.Millisecond
	flashbackEach = 5 * time.Second
)

// flashback flashes back the regions that have changed, or all of them.
type flashback struct {
	cfg    *settings
	tikv   tikv.Flashbacker
	states *regionStates
	record *record
	sweeps *sweeps

	flashes  atomic.Int64 // regions that this run has flashed back
	flashing time.Duration

	checked      int // unchanged regions that were flashed back anyway, and did not change
	flashed      int
	savedSeconds float64
}

// prepare blocks all regions except those already flashed back, which would stay blocked for ever.
func (b *flashback) prepare(ctx context.Context, s *phase.Scope) error {
	for _, done := range b.record.flashed.List() {
		b.record.prepared.Add(done)
	}
	return b.sweep(ctx, s, "prepare", "prepare", b.record.prepared, b.tikv.PrepareFlashback)
}

// flash flashes every key back to the backup ts. A region that reports that it is not prepared is prepared again with
// the same timestamps: if it was already done, both calls change nothing.
func (b *flashback) flash(ctx context.Context, s *phase.Scope) error {
	call := func(ctx context.Context, address string, f tikv.Flashback) error {
		err := b.flashRegion(ctx, address, f)
		if err == nil {
			b.flashes.Add(1)
		}
		return err
	}
	if err := b.sweep(ctx, s, "flashback", "flash back", b.record.flashed, call); err != nil {
		return err
	}
	b.sweeps.scanned = nil
	b.flashed, b.savedSeconds = b.saved(s)
	return b.sweeps.check(ctx)
}

func (b *flashback) flashRegion(ctx context.Context, address string, f tikv.Flashback) error {
	err := b.tikv.Flashback(ctx, address, f)
	var region *tikv.RegionError
	if !errors.As(err, &region) || region.Kind != tikv.RegionNotPrepared {
		return err
	}
	for _, call := range []func(context.Context, string, tikv.Flashback) error{
		b.tikv.PrepareFlashback, b.tikv.Flashback,
	} {
		// The answer may be old: another run may have finished since, and the region may serve.
		if err := b.cfg.Fence.Check(ctx); err != nil {
			return err
		}
		if err := call(ctx, address, f); err != nil {
			return err
		}
	}
	return nil
}

// saved reports how many regions were flashed back, and how much longer all would have taken. TiKV does not report the
// number of keys.
func (b *flashback) saved(s *phase.Scope) (flashed int, seconds float64) {
	unchanged := b.record.unchanged
	flashed = max(0, len(b.states.leaders)-unchanged)
	if unchanged == 0 {
		return flashed, 0
	}
	if n := b.flashes.Load(); n > 0 {
		seconds = b.flashing.Seconds() / float64(n) * float64(unchanged)
	}
	s.Note("%d regions were flashed back, %d were unchanged; flashing back all would have taken about %.1f s more",
		flashed, unchanged, seconds)
	return flashed, seconds
}

// sweep calls all regions not in done, until done has all keys, and records the progress. The time of each store is
// recorded as part.
func (b *flashback) sweep(
	ctx context.Context, s *phase.Scope, part, verb string, done *sweep.Coverage,
	call func(context.Context, string, tikv.Flashback) error,
) error {
	if err := b.sweeps.check(ctx); err != nil {
		return err
	}
	begin := time.Now()
	one, err := b.sweeps.run(ctx, s, sweep.Config{
		Verb: verb, Call: call, Done: done,
		Flashback: tikv.Flashback{
			Version: b.cfg.BackupTS, StartTS: b.record.stamps.Start, CommitTS: b.record.stamps.Commit,
		},
		Save: func() func(context.Context) error {
			p := b.record.snapshot()
			return func(ctx context.Context) error { return b.record.save(ctx, p) }
		},
	})
	for id, took := range one.StoreTimes() {
		b.cfg.Times.Note(id, part, took)
	}
	b.flashing += time.Since(begin)
	return b.record.noted(ctx, err)
}
