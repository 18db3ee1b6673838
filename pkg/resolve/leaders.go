package resolve

import (
	"context"
	"fmt"
	"time"

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

// awaitLeaders polls PD until every planned region has its planned leader. Restarted stores are asked again at
// once. After each third of Config.Stall without any new leader, the same leaders are asked for again first, then
// each other peer of the regions that are left; when all have been tried it is an error. The time in which PD's regions cannot
// be read does not count, but has an end too.
func (r *Resolver) awaitLeaders(ctx context.Context, s *phase.Scope) error {
	s.Expect(int64(len(r.plan.Leaders)), "regions")
	w := newLeaderWait(r)
	for {
		if err := r.resend(ctx); err != nil {
			return err
		}
		begin := time.Now()
		missing, err := w.poll(ctx, s)
		switch {
		case err == nil && len(missing) == 0:
			return nil
		case err != nil && time.Since(w.read) > r.cfg.Stall:
			return failure.New(failure.Limited, "wait for leaders", r.cfg.Cluster.String(), "PD's regions cannot be read for %s: %w", r.cfg.Stall, err).
				WithHint("look at PD's logs, then %s", r.cfg.resumeHint())
		case err == nil && !w.relieveWitnesses(s, missing) && !w.ask(s, missing): //nolint:contextcheck // the recovery outlives the step that asked
			return failure.New(failure.Limited, "wait for leaders", r.cfg.Cluster.String(),
				"%d of %d regions lead and nothing changed for %s: %s", w.best, len(r.plan.Leaders), r.cfg.Stall, failure.List(w.texts(missing))).
				WithHint("look at the logs of the named stores for these regions, then %s", r.cfg.resumeHint())
		}
		// A scan of a million regions takes PD seconds: it gets as long a rest.
		if err := wait.For(ctx, max(retryInterval, time.Since(begin))); err != nil {
			return failure.New(failure.Limited, "wait for leaders", r.cfg.Cluster.String(), "%d of %d regions lead: %s: %w",
				max(w.best, 0), len(r.plan.Leaders), failure.List(w.texts(missing)), err)
		}
	}
}

// led counts the planned regions that lead: whose leader in PD is on the planned store, or whose range newer regions
// with leaders have. A log may hold a split or a merge that its peers apply only now.
func (r *Resolver) led(ctx context.Context) (n int, missing []missingLeader, err error) {
	regions, err := r.pd.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return 0, nil, err
	}
	leaders, witnesses := make(map[cluster.RegionID]cluster.StoreID, len(regions)), map[cluster.RegionID]bool{}
	for i := range regions {
		leaders[regions[i].ID] = regions[i].Leader.Store
		if ledByWitness(&regions[i]) {
			witnesses[regions[i].ID] = true
		}
	}
	var newer regionIndex
	for i := range r.plan.Leaders {
		l := &r.plan.Leaders[i]
		leads := leaders[l.Region] == l.Store && !witnesses[l.Region]
		if !leads && newer == nil {
			newer = newRegionIndex(regions)
		}
		if leads || newer.covers(l) {
			n++
			continue
		}
		missing = append(missing, missingLeader{planned: l, now: leaders[l.Region], witness: witnesses[l.Region]})
	}
	if len(missing) == 0 {
		r.scanned = regions
	}
	return n, missing, nil
}

// bounded gives a sub-phase a deadline that grows with the regions of a store. Its cause says what it was for.
func (r *Resolver) bounded(ctx context.Context, verb string, base, each time.Duration) (context.Context, context.CancelFunc) {
	regions, stores := len(r.plan.Leaders), max(1, len(r.cfg.Stores))
	limit := base + time.Duration(regions/stores+1)*each
	return context.WithTimeoutCause(ctx, limit, failure.Wrap(context.DeadlineExceeded, failure.Limited,
		fmt.Sprintf("%s %d regions on %d stores within %s", verb, regions, stores, limit), ""))
}
