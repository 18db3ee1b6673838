package resolve

import (
	"context"
	"errors"
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/sweep"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// scanEach is the longest that the scan for a lock may take a region on average.
const scanEach = 500 * time.Millisecond

// findUnchanged finds the regions that a flashback would not change: their logs end where they did at the marks of the
// backup, and none of their keys is locked. They count as flashed back from then on, in what the run writes down too. A
// lock makes a region changed, whatever its transaction: the commit record of a primary that is flashed back stays, and a
// secondary's lock would later be committed by it.
func (r *Resolver) findUnchanged(ctx context.Context, s *phase.Scope) error {
	candidates := r.verdicts.list(candidate)
	if len(candidates) == 0 {
		if r.record.unchanged == 0 {
			s.Note("every region is taken back: no region's log is known to end where it did before the backup")
		}
		return nil
	}
	ctx, cancel := r.bounded(ctx, "scan for locks in", sweepBase, scanEach)
	defer cancel()
	if err := r.checkGC(ctx); err != nil {
		return err
	}
	if err := r.scanLocks(ctx, s); err != nil {
		return err
	}
	found := r.verdicts.list(unchanged)
	if err := r.checkUnchanged(ctx, s, found); err != nil {
		return err
	}
	for _, i := range found {
		r.record.flashed.Add(r.plan.Leaders[i].Keys)
	}
	r.record.unchanged += len(found)
	s.Note("%d of %d regions are unchanged since the backup ts and are not taken back; %d more had a lock", len(found), len(r.plan.Leaders),
		len(candidates)-len(found))
	return r.record.noted(ctx, nil)
}

// scanLocks asks the leader of each candidate for a lock. What is not one, or is done by an earlier run, is not asked.
func (r *Resolver) scanLocks(ctx context.Context, s *phase.Scope) error {
	skip := sweep.NewCoverage(r.record.flashed.List()...)
	for _, i := range r.verdicts.list(changed) {
		skip.Add(r.plan.Leaders[i].Keys)
	}
	nothing := func(context.Context) error { return nil } // a run that resumes scans again
	w := sweep.New(sweep.Config{
		Cluster: r.cfg.Cluster, Verb: "scan for locks", Done: skip, Stall: r.cfg.Stall, Log: r.log, Again: r.cfg.resumeHint(),
		Call: r.scanRegion, Save: func() func(context.Context) error { return nothing },
	}, &sweepRun{r: r})
	err := w.Run(ctx, s)
	r.stats.Retries += w.Retries()
	return err
}

// scanRegion decides about one region. A region that another run has prepared meanwhile has changed.
func (r *Resolver) scanRegion(ctx context.Context, address string, f tikv.Flashback) error {
	i, ok := r.verdicts.isCandidate(f.Region)
	if !ok {
		if i, known := r.verdicts.find(f.Region); known {
			r.verdicts.set(i, changed)
		}
		return nil
	}
	locked, err := r.tikv.AnyLock(ctx, address, f.Region)
	var refused *tikv.RegionError
	switch {
	case errors.As(err, &refused) && refused.Kind == tikv.RegionInFlashback, err == nil && locked:
		r.verdicts.set(i, changed)
		return nil
	case err != nil:
		return err
	}
	r.verdicts.set(i, unchanged)
	return nil
}
