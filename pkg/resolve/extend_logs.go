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

// extendLogs extends the logs of the regions with replicas that are ahead.
func (c *regionCalls) extendLogs(ctx context.Context, s *phase.Scope, early *EarlyApply) error {
	s.Expect(int64(len(early.Affected)), "replicas")
	return parallel.Each(ctx, maxChecks, early.Affected, func(ctx context.Context, _ int, a plan.Ahead) error {
		err := c.extendLog(ctx, a, find(early.Rebuild, a.Region, a.Store))
		s.Advance(1)
		return failure.Annotate(err, "extend the log of region "+a.Region.String(), c.cfg.Cluster.String())
	})
}

// extendLog extends one region's log. It fails if the log has not grown for Config.Stall.
func (c *regionCalls) extendLog(ctx context.Context, a plan.Ahead, replica *Replica) error {
	if replica == nil {
		return failure.New(failure.Unknown, "extend log", a.String(), "it is not among those that are rebuilt")
	}
	last, grown := uint64(0), time.Now()
	for {
		state, err := onRegion(ctx, c, replica.Keys, func(address string, _ tikv.Flashback) (tikv.RaftState, error) {
			return c.tikv.RaftState(ctx, address, a.Region)
		})
		switch {
		case err != nil:
			return err
		case state.Last >= a.Applied:
			return nil
		case state.Last > last:
			last, grown = state.Last, time.Now()
		case time.Since(grown) > c.cfg.Stall:
			return failure.New(failure.Limited, "extend log", a.String(),
				"the leader's log ends at index %d and does not grow for %s", last, c.cfg.Stall).
				WithHint("look at the log of the leader's pod, then %s", c.cfg.resumeHint())
		}
		if err := c.flashAgain(ctx, replica.Keys); err != nil {
			return err
		}
		if wait.For(ctx, time.Millisecond) != nil {
			return failure.Annotate(context.Cause(ctx), "extend log", a.String())
		}
	}
}
