package resolve

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/wait"
)

// The maximum time to elect leaders: a real store does so within 50 ms, PD learns of it with the next heartbeats, and a
// store with 20,000 regions and full queues needs several rounds of 10 s.
const (
	leadersBase = 30 * time.Minute
	leadersEach = 100 * time.Millisecond
)

// leading makes sure that every planned region has a leader.
type leading struct {
	cfg    *settings
	pd     pd.Members
	plan   *plan.Plan
	states *regionStates
	calls  *recovery
}

// awaitLeaders polls PD until every planned region has its planned leader, and returns all regions with their leaders.
// Restarted stores are asked again at once. After each third of Config.Stall without a new leader it requests first the
// same leaders again, then each other peer of the remaining regions; it fails when all have been tried. Time in which
// PD's regions cannot be read does not count, but is bounded, too.
func (g *leading) awaitLeaders(ctx context.Context, s *phase.Scope) ([]cluster.Region, error) {
	s.Expect(int64(len(g.plan.Leaders)), "regions")
	w := newLeaderWait(g)
	for {
		if err := g.calls.resend(ctx); err != nil {
			return nil, err
		}
		begin := time.Now()
		regions, missing, err := w.poll(ctx, s)
		switch {
		case err == nil && len(missing) == 0:
			return regions, nil
		case err != nil && time.Since(w.read) > g.cfg.Stall:
			return nil, failure.New(failure.Limited, "wait for leaders", g.cfg.Cluster.String(),
				"PD's regions cannot be read for %s: %w", g.cfg.Stall, err).
				WithHint("look at PD's logs, then %s", g.cfg.resumeHint())
		case err == nil && !w.relieveWitnesses(s, missing) && !w.ask(s, missing):
			return nil, failure.New(failure.Limited, "wait for leaders", g.cfg.Cluster.String(),
				"%d of %d regions lead and nothing changed for %s: %s", w.best, len(g.plan.Leaders), g.cfg.Stall,
				failure.List(w.texts(missing))).
				WithHint("look at the logs of the named stores for these regions, then %s", g.cfg.resumeHint())
		}
		// A scan of a million regions takes PD seconds: pause as long between two.
		if err := wait.For(ctx, max(retryInterval, time.Since(begin))); err != nil {
			return nil, failure.New(failure.Limited, "wait for leaders", g.cfg.Cluster.String(),
				"%d of %d regions lead: %s: %w",
				max(w.best, 0), len(g.plan.Leaders), failure.List(w.texts(missing)), err)
		}
	}
}

// led counts the planned regions with a leader: PD's leader is on the planned store, or newer regions with leaders
// cover the range, as a log may have a split or merge that its peers only apply now.
func (g *leading) led(ctx context.Context) (regions []cluster.Region, n int, missing []missingLeader, err error) {
	regions, err = g.pd.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return nil, 0, nil, err
	}
	leaders, witnesses := make(map[cluster.RegionID]cluster.StoreID, len(regions)), map[cluster.RegionID]bool{}
	for i := range regions {
		leaders[regions[i].ID] = regions[i].Leader.Store
		if ledByWitness(&regions[i]) {
			witnesses[regions[i].ID] = true
		}
	}
	var newer regionIndex
	for i := range g.plan.Leaders {
		l := &g.plan.Leaders[i]
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
	return regions, n, missing, nil
}
