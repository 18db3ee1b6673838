package resolve

import (
	"context"
	"errors"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/sweep"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// scanEach is the maximum average time of a scan for a lock per region.
const scanEach = 500 * time.Millisecond

// findUnchanged counts as flashed back the candidates without a locked key that pass check. Any lock means that a
// region has changed, whatever its transaction: the commit record of a primary outlives the flashback, and would later
// commit the lock of a secondary.
func (b *flashback) findUnchanged(
	ctx context.Context, s *phase.Scope,
	check func(context.Context, *phase.Scope, []cluster.KeyRange) (checked int, err error),
) (err error) {
	candidates := b.states.list(candidate)
	if len(candidates) == 0 {
		if b.record.unchanged == 0 {
			s.Note("flashing back every region: no region's log is known to end where it did before the backup")
		}
		return nil
	}
	if err := b.sweeps.check(ctx); err != nil {
		return err
	}
	if err := b.scanLocks(ctx, s); err != nil {
		return err
	}
	var found []cluster.KeyRange
	for _, i := range b.states.list(unchanged) {
		found = append(found, b.states.leaders[i].Keys)
	}
	if b.checked, err = check(ctx, s, found); err != nil {
		return err
	}
	b.record.noteUnchanged(found)
	s.Note("%d of %d regions are unchanged since the backup ts and are not flashed back; %d more had a lock",
		len(found), len(b.states.leaders), len(candidates)-len(found))
	return b.record.noted(ctx, nil)
}

// scanLocks asks each candidate's leader for a lock. Regions that are not candidates, or were done by an earlier run,
// are skipped.
func (b *flashback) scanLocks(ctx context.Context, s *phase.Scope) error {
	skip := sweep.NewCoverage(b.record.flashed.List()...)
	for _, i := range b.states.list(changed) {
		skip.Add(b.states.leaders[i].Keys)
	}
	nothing := func(context.Context) error { return nil } // a run that resumes scans again
	_, err := b.sweeps.run(ctx, s, sweep.Config{
		Verb: "scan for locks", Done: skip, Call: b.scanRegion,
		Save: func() func(context.Context) error { return nothing },
	})
	return err
}

// scanRegion decides about one region. If another run has prepared it meanwhile, it has changed.
func (b *flashback) scanRegion(ctx context.Context, address string, f tikv.Flashback) error {
	i, ok := b.states.isCandidate(f.Region)
	if !ok {
		if i, known := b.states.find(f.Region); known {
			b.states.set(i, changed)
		}
		return nil
	}
	locked, err := b.tikv.AnyLock(ctx, address, f.Region)
	var refused *tikv.RegionError
	switch {
	case errors.As(err, &refused) && refused.Kind == tikv.RegionInFlashback, err == nil && locked:
		b.states.set(i, changed)
		return nil
	case err != nil:
		return err
	}
	b.states.set(i, unchanged)
	return nil
}
