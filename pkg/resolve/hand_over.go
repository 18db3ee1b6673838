package resolve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/wait"
)

// handOver moves the leadership away from affected replicas, which lead first where only their logs are the best. Such
// a leader replicates its log but serves no requests: as soon as another replica has all of it, that one takes over.
// Nothing is proposed before, as TiKV crashes on a proposal whose entry is skipped. Regions are those of awaitLeaders,
// and are returned updated.
func (g *leading) handOver(ctx context.Context, s *phase.Scope, regions []cluster.Region) ([]cluster.Region, error) {
	leaders := g.plan.AffectedLeaders()
	if len(leaders) == 0 {
		return regions, nil
	}
	s.Note("%d replicas that are ahead of every log lead until another one has their log, which is the best of the "+
		"region",
		len(leaders))
	heirs := make([]cluster.StoreID, len(leaders))
	err := parallel.Each(ctx, maxChecks, leaders, func(ctx context.Context, i int, a plan.Ahead) (err error) {
		heirs[i], err = g.calls.awaitHeir(ctx, a)
		return err
	})
	if err != nil {
		return nil, err
	}
	to := make(map[cluster.RegionID]cluster.StoreID, len(leaders))
	for i, a := range leaders {
		to[a.Region] = heirs[i]
	}
	g.move(to)
	return g.awaitLeaders(ctx, s)
}

// awaitHeir waits until another, unaffected replica of the region has the leader's whole log, and returns its store. It
// fails if nothing has changed for Config.Stall.
func (r *recovery) awaitHeir(ctx context.Context, a plan.Ahead) (cluster.StoreID, error) {
	i := slices.IndexFunc(r.plan.Leaders, func(l plan.Leader) bool { return l.Region == a.Region })
	others := r.plan.Others(&r.plan.Leaders[i])
	changed, last := time.Now(), uint64(0)
	for {
		leader, err := r.tikv.RaftState(ctx, r.stores.address(a.Store), a.Region)
		for _, other := range others {
			if err != nil {
				break
			}
			state, otherErr := r.tikv.RaftState(ctx, r.stores.address(other), a.Region)
			if otherErr == nil && state.Term == leader.Term && state.Last >= leader.Last {
				return other, nil
			}
			if otherErr == nil && state.Last > last {
				changed, last = time.Now(), state.Last
			}
		}
		if time.Since(changed) > r.cfg.Stall {
			unchanged := fmt.Errorf("no other replica gets its log, and nothing has changed for %s", r.cfg.Stall)
			return 0, failure.New(failure.Limited, "hand over leadership", a.String(), "%w",
				errors.Join(unchanged, err)).
				WithHint("look at the logs of the stores' pods, then %s", r.cfg.resumeHint())
		}
		if waitErr := wait.For(ctx, retryInterval); waitErr != nil {
			return 0, failure.Annotate(waitErr, "hand over leadership", a.String())
		}
		if resendErr := r.resend(ctx); resendErr != nil {
			return 0, resendErr
		}
	}
}
