package resolve

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// extendLogs sees that the log of each region with a replica that is ahead ends above all that the replica has applied. The
// flashback's entries mostly do that. Otherwise the same flashback is made again, which changes no row and adds entries: a
// replica that is elected before it is replaced would answer nothing, and TiKV ends at the second entry that is proposed to it.
func (r *Resolver) extendLogs(ctx context.Context, s *phase.Scope) error {
	if r.record.early == nil || len(r.record.early.Affected) == 0 {
		return nil
	}
	ctx, cancel := r.bounded(ctx, "extend the logs of", sweepBase, flashbackEach)
	defer cancel()
	s.Expect(int64(len(r.record.early.Affected)), "replicas")
	return parallel.Each(ctx, maxChecks, r.record.early.Affected, func(ctx context.Context, _ int, a plan.Ahead) error {
		err := r.extendLog(ctx, a)
		s.Advance(1)
		return failure.Annotate(err, "extend the log of region "+a.Region.String(), r.cfg.Cluster.String())
	})
}

// extendLog extends one region's log. It gives up when the log has not grown for Config.Stall.
func (r *Resolver) extendLog(ctx context.Context, a plan.Ahead) error {
	replica := find(r.record.early.Rebuild, a.Region, a.Store)
	if replica == nil {
		return failure.New(failure.Unknown, "extend log", a.String(), "it is not among those that are rebuilt")
	}
	last, grown := uint64(0), time.Now()
	for {
		state, err := onRegion(ctx, r, replica.Keys, func(address string, _ tikv.Flashback) (tikv.RaftState, error) {
			return r.tikv.RaftState(ctx, address, a.Region)
		})
		switch {
		case err != nil:
			return err
		case state.Last >= a.Applied:
			return nil
		case state.Last > last:
			last, grown = state.Last, time.Now()
		case time.Since(grown) > r.cfg.Stall:
			return failure.New(failure.Limited, "extend log", a.String(), "the leader's log ends at index %d and does not grow for %s", last, r.cfg.Stall).
				WithHint("look at the log of the leader's pod, then %s", r.cfg.resumeHint())
		}
		if err := r.flashAgain(ctx, replica.Keys); err != nil {
			return err
		}
		if wait.For(ctx, time.Millisecond) != nil {
			return failure.Annotate(context.Cause(ctx), "extend log", a.String())
		}
	}
}
