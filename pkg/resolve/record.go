package resolve

import (
	"context"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/resolve/sweep"
)

// record is this run's progress, kept for one that resumes it. It is owned by steps that run one after another.
type record struct {
	cfg *settings
	pd  recordPD

	clusterID         uint64
	stamps            Stamps
	prepared, flashed *sweep.Coverage
	unchanged         int // regions in flashed that a flashback would not have changed

	// early is what was found about replicas that are ahead, nil if they were not looked for; earlyForSure means that
	// an earlier run has looked.
	early        *EarlyApply
	earlyForSure bool

	resumed bool          // regions may have been prepared by the earlier run
	before  cluster.RunID // its id
}

// recordPD gives timestamps, and identifies the cluster.
type recordPD interface {
	pd.Members
	pd.Recovery
}

func newRecord(cfg *settings) *record {
	return &record{cfg: cfg, prepared: sweep.NewCoverage(), flashed: sweep.NewCoverage()}
}

// connect sets the cluster's PD.
func (r *record) connect(p recordPD) { r.pd = p }

// knowEarly sets what is known about replicas that are ahead.
func (r *record) knowEarly(now *EarlyApply) { r.early = now }

// knowEarlyForSure sets what an earlier run has found.
func (r *record) knowEarlyForSure(found *EarlyApply) { r.early, r.earlyForSure = found, true }

// noteUnchanged counts as flashed back the regions that a flashback would not change.
func (r *record) noteUnchanged(found []cluster.KeyRange) {
	for _, keys := range found {
		r.flashed.Add(keys)
	}
	r.unchanged += len(found)
}

// snapshot returns the current progress. While a sweep runs only that may call it.
func (r *record) snapshot() Progress {
	return Progress{
		ClusterID: r.clusterID, BackupTS: r.cfg.BackupTS, Run: r.cfg.Run, Stamps: r.stamps,
		Prepared: r.prepared.List(), Flashed: r.flashed.List(), Unchanged: r.unchanged,
		EarlyApply: r.early,
	}
}

// save writes the progress. A Conflict means that another run has resumed from it, and owns what is set in PD.
func (r *record) save(ctx context.Context, p Progress) error {
	err := r.cfg.Progress.Save(ctx, p)
	if failure.Is(err, failure.Conflict) {
		r.cfg.Fence.Lose(err)
	}
	return err
}

// noted saves the progress at the end of a sweep, whatever its outcome. A failed write does not fail the run: one that
// resumes only repeats more. But two runs must not both continue.
func (r *record) noted(ctx context.Context, sweepErr error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteDeadline)
	defer cancel()
	saveErr := r.save(ctx, r.snapshot())
	switch {
	case sweepErr != nil:
		return sweepErr
	case failure.Is(saveErr, failure.Conflict):
		return failure.Annotate(saveErr, "write progress", r.cfg.Cluster.String())
	case saveErr != nil:
		r.cfg.log.Warn("progress is not written: a run that resumes would have more to do", zap.Error(saveErr))
	}
	return nil
}

// foundBefore returns what an earlier run found in this very cluster; nil if none can have made leaders there.
func (r *record) foundBefore(ctx context.Context) (*EarlyApply, error) {
	id, err := r.pd.ClusterID(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "read cluster id", r.cfg.Cluster.String())
	}
	saved, found, err := r.cfg.Progress.Load(ctx)
	switch {
	case err != nil && !failure.Is(err, failure.Corrupt):
		return nil, failure.Annotate(err, "read progress", r.cfg.Cluster.String())
	case err == nil && (!found || saved.ClusterID != id || saved.BackupTS != r.cfg.BackupTS):
		return nil, nil
	case err == nil && saved.EarlyApply != nil:
		return saved.EarlyApply, nil
	}
	return nil, failure.New(failure.Corrupt, "look for replicas ahead of their logs", r.cfg.Cluster.String(),
		"an earlier run may have made leaders, and has not written down which replicas were ahead before: "+
			"by now that can no longer be seen").
		WithHint("restore again onto fresh volumes")
}

// noteEarly saves, in the progress of this run or of the one that it resumes, the state of the replicas that are ahead,
// and uses it from then on.
func (r *record) noteEarly(ctx context.Context, now *EarlyApply) error {
	p, found, err := r.cfg.Progress.Load(ctx)
	if err != nil {
		return failure.Annotate(err, "read progress", r.cfg.Cluster.String())
	}
	if !found {
		p = r.snapshot()
	}
	p.Run, p.EarlyApply = r.cfg.Run, now
	if err := r.save(ctx, p); err != nil {
		return failure.Annotate(err, "write down which peers are replaced", r.cfg.Cluster.String())
	}
	r.early = now
	return nil
}

// clear removes the progress.
func (r *record) clear(ctx context.Context) error {
	return failure.Annotate(r.cfg.Progress.Clear(ctx), "remove progress", r.cfg.Cluster.String())
}
