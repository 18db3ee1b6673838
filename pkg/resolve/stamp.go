package resolve

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/sweep"
)

// Stamps are the timestamps of a flashback. They are fixed before the first region is prepared, and kept across
// retries, restarts and resumed runs, so that a repeated call is identical.
type Stamps struct {
	Start  cluster.TS `json:"start"`
	Commit cluster.TS `json:"commit"`
}

// noteDeadline bounds writes of progress that nothing else bounds.
const noteDeadline = 30 * time.Second

// stamp takes new timestamps, or those of the run that this one resumes, and saves them.
func (r *record) stamp(ctx context.Context, s *phase.Scope) error {
	if r.cfg.BackupTS == 0 {
		return failure.New(failure.Corrupt, "flash back", r.cfg.Cluster.String(),
			"the backup ts is 0: every row would be deleted")
	}
	id, err := r.pd.ClusterID(ctx)
	if err != nil {
		return failure.Annotate(err, "read cluster id", r.cfg.Cluster.String())
	}
	saved, found, err := r.cfg.Progress.Load(ctx)
	if failure.Is(err, failure.Corrupt) {
		s.Warn("what an earlier run wrote down cannot be read; all regions are flashed back from the start: %v", err)
		err = nil
	}
	if err != nil {
		return failure.Annotate(err, "read progress", r.cfg.Cluster.String())
	}
	if found && saved.suits(id, r.cfg.BackupTS) && saved.Stamps.Start > r.cfg.MaxTS {
		err = r.resume(ctx, s, saved)
	} else {
		err = r.begin(ctx)
	}
	if err != nil {
		return err
	}
	if r.stamps.Start <= max(r.cfg.BackupTS, r.cfg.MaxTS) || r.stamps.Commit <= r.stamps.Start {
		return failure.New(failure.Corrupt, "flash back", r.cfg.Cluster.String(),
			"PD's timestamps %s and %s are not above the backup ts %s and the last ts %s of the data",
			r.stamps.Start, r.stamps.Commit, r.cfg.BackupTS, r.cfg.MaxTS)
	}
	r.clusterID = id
	return failure.Annotate(r.save(ctx, r.snapshot()), "write timestamps down", r.cfg.Cluster.String())
}

// begin takes new timestamps. PD's oracle is raised first: a commit ts below one in the data crashes TiKV.
func (r *record) begin(ctx context.Context) error {
	r.prepared, r.flashed, r.unchanged = sweep.NewCoverage(), sweep.NewCoverage(), 0
	if err := r.raiseTS(ctx, r.cfg.MaxTS); err != nil {
		return err
	}
	var err error
	if r.stamps.Start, err = r.pd.Now(ctx); err != nil {
		return failure.Annotate(err, "take timestamp", r.cfg.Cluster.String())
	}
	if r.stamps.Commit, err = r.pd.Now(ctx); err != nil {
		return failure.Annotate(err, "take timestamp", r.cfg.Cluster.String())
	}
	return nil
}

// resume continues where another run stopped.
func (r *record) resume(ctx context.Context, s *phase.Scope, saved Progress) error {
	r.stamps = saved.Stamps
	r.prepared, r.flashed = sweep.NewCoverage(saved.Prepared...), sweep.NewCoverage(saved.Flashed...)
	r.unchanged = saved.Unchanged
	if r.cfg.FlashAll && saved.Unchanged > 0 {
		// The record does not show which of the ranges these are. Repeating the same flashback changes nothing.
		r.prepared, r.flashed, r.unchanged = sweep.NewCoverage(), sweep.NewCoverage(), 0
	}
	if saved.Run != r.cfg.Run {
		r.resumed, r.before = true, saved.Run
		s.Note("resumes where run %s stopped, with its timestamps %s and %s", saved.Run, saved.Stamps.Start,
			saved.Stamps.Commit)
	}
	return r.raiseTS(ctx, saved.Stamps.Commit) // rows at the commit ts must be visible
}

func (r *record) raiseTS(ctx context.Context, ts cluster.TS) error {
	if ts == 0 {
		return nil
	}
	return failure.Annotate(r.pd.RaiseTS(ctx, ts), "raise timestamp", r.cfg.Cluster.String())
}
