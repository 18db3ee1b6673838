package drill

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// restore restores the backup into the cage, by a run whose id is journalled first.
func (r *run) restore(ctx context.Context, s *phase.Scope) error {
	id, err := journal.NewRunID(time.Now())
	if err != nil {
		return err
	}
	to := r.target()
	to.Run = id
	if err := s.Intent(ctx, journal.IntentTarget, to); err != nil {
		return err
	}
	r.made.targets = append(r.made.targets, to)
	r.result.Restore = Failed
	restored, err := r.Restore(ctx, Target{Run: to.Run, Cluster: to.Cluster, Tags: ebs.Tags{
		ebs.TagDrill: string(r.opts.Run), ebs.TagDrillExpires: r.expires().UTC().Format(time.RFC3339),
	}})
	r.result.Warnings = restored.Warnings
	if restored.Serves {
		r.result.Restore = Passed
		if err != nil {
			s.Warn("the cluster serves, but: %v", err)
		}
		return ctx.Err()
	}
	if err != nil && ctx.Err() != nil {
		r.result.Restore = Interrupted
	}
	if err == nil {
		err = failure.New(failure.Unknown, "restore", to.Cluster.String(), "it ended without a cluster that serves")
	}
	return err
}
