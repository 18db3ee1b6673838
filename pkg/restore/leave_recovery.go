package restore

import (
	"context"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// leaveRecovery removes PD's mark and restarts TiKV: until the restart there is no failover, whatever the mark. It
// records the cluster, as the resolver's progress is removed before the run ends. TiDB starts meanwhile, unless
// replicas must be rebuilt first.
func (r *run) leaveRecovery(ctx context.Context, s *phase.Scope) error {
	if err := r.runner.Fence().Confirm(ctx); err != nil {
		return failure.New(failure.Conflict, "leave recovery mode", r.opts.Target.String(), "another run has it: %w",
			err).
			WithHint("see how that run ended: this one has nothing more to do")
	}
	rebuild, err := r.resolver.ToRebuild(ctx)
	if err != nil {
		return err
	}
	if len(rebuild) > 0 {
		if err := r.target.checkNoTiDB(ctx); err != nil {
			return err
		}
	}
	id, err := r.pd.ClusterID(ctx)
	if err != nil {
		return failure.Annotate(err, "read cluster id", r.opts.Target.String())
	}
	if err := s.Intent(ctx, journal.IntentLeaveRecovery,
		journal.LeftRecovery{ClusterID: id, Regions: r.regionsDone()}); err != nil {
		return err
	}
	if err := r.pd.unmark(ctx); err != nil {
		return err
	}
	if err := r.target.leaveRecovery(ctx); err != nil || len(rebuild) > 0 {
		return err
	}
	return r.target.startTiDB(ctx, s)
}

// leaveRecovery takes the cluster out of recovery mode, which restarts TiKV. From then on it may serve, even if this
// fails.
func (t *target) leaveRecovery(ctx context.Context) error {
	t.leaving = true
	return t.kube.LeaveRecovery(ctx, t.opts.Target)
}

// awaitRestart waits until every store itself reports that it serves outside recovery mode: PD's start times are in
// whole seconds, which may not distinguish two processes, and PD shows a store as up only after its first heartbeat.
func (r *run) awaitRestart(ctx context.Context, s *phase.Scope) error {
	s.Expect(int64(len(r.arrival.stores)), "stores")
	return r.target.poll(ctx, s, "wait for the restart of TiKV", func(ctx context.Context) (bool, error) {
		stores, err := r.pd.Stores(ctx)
		if err != nil {
			return false, failure.Annotate(err, "list stores", r.opts.Target.String())
		}
		restarted := 0
		for _, st := range stores {
			if !slices.Contains(r.arrival.stores, st.ID) || st.State == pd.StoreTombstone {
				continue
			}
			normal, err := r.pd.normalMode(ctx, st.Address)
			if err != nil && st.State != pd.StoreUp && failure.NotYet(err) {
				continue // unreachable
			}
			if err != nil {
				return false, failure.Annotate(err, "ask for the mode", "store "+st.ID.String()+" ("+st.Address+")")
			}
			if normal {
				restarted++
			}
		}
		s.Reached(int64(restarted))
		return restarted == len(r.arrival.stores), nil
	})
}

// awaitLeaders waits until every region has a leader on a restored store and PD's regions cover the key space.
func (r *run) awaitLeaders(ctx context.Context, s *phase.Scope) error {
	err := phase.Poll(ctx, pollInterval, "wait for leaders", r.opts.Target.String(),
		func(ctx context.Context) (bool, error) {
			regions, err := r.pd.Regions(ctx, cluster.KeyRange{})
			if err != nil {
				return false, failure.Annotate(err, "list regions", r.opts.Target.String())
			}
			led := 0
			ranges := make([]cluster.KeyRange, 0, len(regions))
			for _, region := range regions {
				if slices.Contains(r.arrival.stores, region.Leader.Store) {
					led++
				}
				ranges = append(ranges, region.Keys)
			}
			s.Expect(int64(len(regions)), "regions")
			s.Reached(int64(led))
			if len(regions) == 0 || led < len(regions) {
				return false, failure.New(failure.Unready, "wait for leaders", r.opts.Target.String(),
					"%d of %d regions have none", len(regions)-led, len(regions))
			}
			// PD still lists the leaders from before the restart: the stores' own answers count.
			if led, err = r.pd.ledByStores(ctx, r.arrival.stores); err != nil || led < len(regions) {
				s.Reached(int64(led))
				return false, err
			}
			if err := cluster.Tile(ranges, 5); err != nil {
				return false, failure.New(failure.Unready, "check regions in PD", r.opts.Target.String(), "%w", err)
			}
			return true, nil
		})
	if err == nil {
		r.data.haveLeaders()
		r.noteServes(s)
	}
	return err
}

// noteServes records, in the journal too, that the cluster may be in use.
func (r *run) noteServes(s *phase.Scope) {
	if r.data.mayServe() {
		s.Result(journal.ResultServes, nil)
	}
	r.Remains.Clear(remainsCluster, volumes.RemainsVolumes)
}

// awaitTiDB waits until TiDB serves, if the cluster has TiDB. Once one answers, users may write, even before all
// regions are known to have leaders: from then on the cluster is kept.
func (r *run) awaitTiDB(ctx context.Context, s *phase.Scope) error {
	return r.target.poll(ctx, s, "wait for TiDB", func(ctx context.Context) (bool, error) {
		tc, err := r.target.cluster(ctx)
		if err != nil {
			return false, err
		}
		s.Expect(int64(tc.TiDBReplicas), "TiDB members")
		s.Reached(int64(tc.TiDBReady))
		if tc.TiDBReady > 0 {
			r.noteServes(s)
		}
		return tc.TiDBReady >= tc.TiDBReplicas, nil
	})
}
