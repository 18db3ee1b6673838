package restore

import (
	"context"
	"errors"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// leaveRecovery removes PD's mark and restarts TiKV: until the restart there is no failover, whatever the mark.
func (t *task) leaveRecovery(ctx context.Context, _ *phase.Scope) error {
	target := t.opts.Target.String()
	if t.fence.Taken(ctx) {
		return failure.New(failure.Conflict, "leave recovery mode", target, "another run has gone on with it").
			WithHint("look at what became of that run: this one has nothing more to do")
	}
	if err := t.pd.UnmarkRecovering(ctx); err != nil {
		return failure.Annotate(err, "unmark recovering", target)
	}
	marked, err := t.pd.Recovering(ctx)
	if err != nil {
		return failure.Annotate(err, "read mark", target)
	}
	if marked {
		return failure.New(failure.Unknown, "unmark recovering", target, "PD removed the mark and still has it")
	}
	return t.Kube.LeaveRecovery(ctx, t.opts.Target)
}

// awaitRestart waits until every store is up and out of recovery mode, by its own word: PD's start times are
// in whole seconds, and would not tell a process from the one before it in the same second.
func (t *task) awaitRestart(ctx context.Context, s *phase.Scope) error {
	s.Expect(int64(len(t.stores)), "stores")
	return until(ctx, "wait for the restart of TiKV", t.opts.Target.String(), func(ctx context.Context) (bool, error) {
		stores, err := t.pd.Stores(ctx)
		if err != nil {
			return false, failure.Annotate(err, "list stores", t.opts.Target.String())
		}
		restarted := 0
		for _, st := range stores {
			if !slices.Contains(t.stores, st.ID) || st.State != pd.StoreUp {
				continue
			}
			normal, err := t.normalMode(ctx, st.Address)
			if err != nil {
				return false, failure.Annotate(err, "ask for the mode", "store "+st.ID.String()+" ("+st.Address+")")
			}
			if normal {
				restarted++
			}
		}
		s.Reached(int64(restarted))
		return restarted == len(t.stores), nil
	})
}

// normalMode asks for the service that only a store in recovery mode has.
func (t *task) normalMode(ctx context.Context, address string) (bool, error) {
	recovering := errors.New("in recovery mode")
	err := t.TiKV.RegionMetas(ctx, address, func(tikv.RegionMeta) error { return recovering })
	switch {
	case failure.Is(err, failure.Unready):
		return true, nil
	case err == nil, errors.Is(err, recovering):
		return false, nil
	}
	return false, err
}

// awaitLeaders waits until every region has a leader on a restored store and PD's regions cover the key space.
func (t *task) awaitLeaders(ctx context.Context, s *phase.Scope) error {
	return until(ctx, "wait for leaders", t.opts.Target.String(), func(ctx context.Context) (bool, error) {
		regions, err := t.pd.Regions(ctx, cluster.KeyRange{})
		if err != nil {
			return false, failure.Annotate(err, "list regions", t.opts.Target.String())
		}
		led := 0
		ranges := make([]cluster.KeyRange, 0, len(regions))
		for _, r := range regions {
			if slices.Contains(t.stores, r.Leader.Store) {
				led++
			}
			ranges = append(ranges, cluster.KeyRange{Start: r.Start, End: r.End})
		}
		s.Expect(int64(len(regions)), "regions")
		s.Reached(int64(led))
		if len(regions) == 0 || led < len(regions) {
			return false, failure.New(failure.Unready, "wait for leaders", t.opts.Target.String(), "%d of %d regions have none", len(regions)-led, len(regions))
		}
		// PD still lists the leaders from before the restart: the stores' own word counts.
		if led, err = t.ledByStores(ctx); err != nil || led < len(regions) {
			s.Reached(int64(led))
			return false, err
		}
		if err := cluster.Tile(ranges, 5); err != nil {
			return false, failure.New(failure.Unready, "check regions in PD", t.opts.Target.String(), "%w", err)
		}
		return true, nil
	})
}

// ledByStores is the number of regions that the stores say they lead.
func (t *task) ledByStores(ctx context.Context) (int, error) {
	stores, err := t.pd.Stores(ctx)
	if err != nil {
		return 0, failure.Annotate(err, "list stores", t.opts.Target.String())
	}
	sum := 0
	for _, st := range stores {
		if !slices.Contains(t.stores, st.ID) {
			continue
		}
		led, _, err := t.TiKV.LedRegions(ctx, st.Address)
		if err != nil {
			return 0, failure.Annotate(err, "count leaders", "store "+st.ID.String())
		}
		sum += len(led)
	}
	return sum, nil
}

// awaitTiDB waits until TiDB serves; a cluster without TiDB needs none.
func (t *task) awaitTiDB(ctx context.Context, s *phase.Scope) error {
	return until(ctx, "wait for TiDB", t.opts.Target.String(), func(ctx context.Context) (bool, error) {
		tc, err := t.Kube.Cluster(ctx, t.opts.Target)
		if err != nil {
			return false, err
		}
		s.Expect(int64(tc.TiDBReplicas), "TiDB members")
		s.Reached(int64(tc.TiDBReady))
		return tc.TiDBReady >= tc.TiDBReplicas, nil
	})
}
