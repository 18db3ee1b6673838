package resolve

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// The time to elect leaders in, at most: a real store has them within 50 ms, PD hears of them with the next
// heartbeats, and a store with 20,000 regions and full queues needs several rounds of 10 s.
const (
	leadersBase = 30 * time.Minute
	leadersEach = 100 * time.Millisecond
)

// want is a region whose planned leader PD does not know yet.
type want struct {
	region cluster.RegionID
	store  cluster.StoreID
}

func (w want) String() string { return fmt.Sprintf("region %s on store %s", w.region, w.store) }

// awaitLeaders polls PD until every planned region has its planned leader. Restarted stores are asked again at
// once, those whose regions do not move for a third of Config.Stall too; after Config.Stall without any new
// leader it is an error.
func (r *Resolver) awaitLeaders(ctx context.Context, s *phase.Scope) error {
	s.Expect(int64(len(r.plan.Leaders)), "regions")
	best, moved, asked := -1, time.Now(), time.Now()
	for {
		if err := r.resend(ctx); err != nil {
			return err
		}
		begin := time.Now()
		led, missing, err := r.led(ctx)
		if err != nil {
			r.log.Warn("regions cannot be read yet", zap.Error(err))
		}
		if led > best && err == nil {
			best, moved = led, time.Now()
			s.Reached(int64(led))
		}
		if err == nil && len(missing) == 0 {
			return nil
		}
		if idle := time.Since(moved); idle > r.cfg.Stall {
			return failure.New(failure.Limited, "wait for leaders", r.cfg.Cluster.String(),
				"%d of %d regions lead and nothing changed for %s: %s", best, len(r.plan.Leaders), r.cfg.Stall, failure.List(texts(missing))).
				WithHint("look at the stores' logs for these regions, then run it again")
		} else if third := r.cfg.Stall / 3; idle > third && time.Since(asked) > third {
			asked = time.Now()
			r.askAgain(storesOf(missing)) //nolint:contextcheck // the recovery outlives the step that asked
		}
		// A scan of a million regions takes PD seconds: it gets as long a rest.
		if err := wait.For(ctx, max(retryInterval, time.Since(begin))); err != nil {
			return failure.New(failure.Limited, "wait for leaders", r.cfg.Cluster.String(), "%d of %d regions lead: %s: %w",
				best, len(r.plan.Leaders), failure.List(texts(missing)), err)
		}
	}
}

// led counts the planned regions whose leader in PD is on the planned store.
func (r *Resolver) led(ctx context.Context) (n int, missing []want, err error) {
	regions, err := r.pd.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return 0, nil, err
	}
	leaders := make(map[cluster.RegionID]cluster.StoreID, len(regions))
	for _, reg := range regions {
		leaders[reg.ID] = reg.Leader.Store
	}
	for _, l := range r.plan.Leaders {
		if leaders[l.Region] == l.Store {
			n++
			continue
		}
		missing = append(missing, want{l.Region, l.Store})
	}
	return n, missing, nil
}

// texts prints the first ones, and as many as there are.
func texts(missing []want) []string {
	out := make([]string, len(missing))
	for i, m := range missing[:min(len(missing), 100)] {
		out[i] = m.String()
	}
	return out
}

func storesOf(missing []want) []cluster.StoreID {
	var stores []cluster.StoreID
	for _, m := range missing {
		stores = append(stores, m.store)
	}
	slices.Sort(stores)
	return slices.Compact(stores)
}

// bounded gives a sub-phase a deadline that grows with the regions of a store. Its cause says what it was for.
func (r *Resolver) bounded(ctx context.Context, verb string, base, each time.Duration) (context.Context, context.CancelFunc) {
	regions, stores := len(r.plan.Leaders), max(1, len(r.cfg.Stores))
	limit := base + time.Duration(regions/stores+1)*each
	return context.WithTimeoutCause(ctx, limit, failure.Wrap(context.DeadlineExceeded, failure.Limited,
		fmt.Sprintf("%s %d regions on %d stores within %s", verb, regions, stores, limit), ""))
}
