package resolve

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/wait"
)

// EarlyApply is what was found of replicas that are ahead before the regions got leaders: it is not to be seen afterwards.
type EarlyApply struct {
	Affected []plan.Ahead `json:"affected,omitempty"`
	// Rebuild are the replicas that are made again from the others, once the stores have left recovery mode: the affected
	// ones, and what their stores hold of regions that split off since.
	Rebuild []Replica `json:"rebuild,omitempty"`
	// Removed says that none of them is left: what PD makes from then on is made from the others.
	Removed bool `json:"removed,omitempty"`
}

// present reports whether a replica that is ahead may still be there.
func (e *EarlyApply) present() bool { return e != nil && len(e.Affected) > 0 && !e.Removed }

// aheadCall bounds one question for a raft state: three small reads.
const aheadCall = 10 * time.Second

// findAhead finds the replicas whose data hold entries that their own raft logs do not have, unless the backup has ruled
// them out. It has to be done before the first RecoverRegion: a leader gives its log to the others within milliseconds.
// A run that resumes one that may have sent it goes by what that one has written down.
func (r *Resolver) findAhead(ctx context.Context, s *phase.Scope) error {
	if r.cfg.NoneAhead {
		s.Note("not looked for: the backup has ruled out that a replica is ahead of its raft log")
		return nil
	}
	found, err := r.foundBefore(ctx)
	if err != nil {
		return err
	}
	if found != nil {
		r.early, r.earlyForSure = found, true
		s.Note("%d replicas that are ahead of their logs are known from the run before", len(found.Affected))
		return nil
	}
	ahead, err := r.readAhead(ctx, s)
	if err != nil {
		return failure.Annotate(err, "look for replicas ahead of their logs", r.cfg.Cluster.String())
	}
	r.early = &EarlyApply{Affected: ahead}
	s.Result(journal.ResultAhead, r.early)
	return nil
}

// foundBefore is what an earlier run has found in this very cluster; nil if none can have made leaders there.
func (r *Resolver) foundBefore(ctx context.Context) (*EarlyApply, error) {
	id, err := r.pd.ClusterID(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "read cluster id", r.cfg.Cluster.String())
	}
	saved, found, err := r.cfg.Progress.Load(ctx)
	switch {
	case err != nil && !failure.Is(err, failure.Corrupt):
		return nil, failure.Annotate(err, "read progress", r.cfg.Cluster.String())
	case err == nil && (!found || saved.ClusterID != id || saved.BackupTS != r.cfg.BackupTS):
		return nil, nil
	case err == nil && saved.EarlyApply != nil:
		return saved.EarlyApply, r.freezer.checkKept(ctx, saved.EarlyApply)
	}
	return nil, failure.New(failure.Corrupt, "look for replicas ahead of their logs", r.cfg.Cluster.String(),
		"an earlier run may have made leaders, and has not written down which replicas were ahead before: that is not to be seen any more").
		WithHint("restore again onto fresh volumes")
}

// readAhead asks every store for the raft state of each of its peers, and lists by region and store those that are ahead.
func (r *Resolver) readAhead(ctx context.Context, s *phase.Scope) ([]plan.Ahead, error) {
	peers := r.metas.Peers()
	total := 0
	for _, regions := range peers {
		total += len(regions)
	}
	s.Expect(int64(total), "peers")
	var mu sync.Mutex
	var ahead []plan.Ahead
	err := parallel.Each(ctx, 0, r.cfg.Stores, func(ctx context.Context, _ int, store cluster.StoreID) error {
		pace, moved := rate.NewLimiter(marks.MaxRate, marks.MaxCalls), &atomic.Int64{}
		moved.Store(time.Now().UnixNano())
		asking, end := context.WithCancelCause(ctx) // by the first region that cannot be read: the others meet the same
		defer end(nil)
		err := parallel.Each(asking, marks.MaxCalls, peers[store], func(ctx context.Context, _ int, region cluster.RegionID) error {
			if err := pace.Wait(ctx); err != nil {
				return err
			}
			applied, is, err := r.isAhead(ctx, store, region, moved)
			if err != nil {
				end(err)
			}
			if err == nil && is {
				mu.Lock()
				ahead = append(ahead, plan.Ahead{Region: region, Store: store, Applied: applied})
				mu.Unlock()
			}
			s.Advance(1)
			return err
		})
		if err != nil && asking.Err() != nil {
			return context.Cause(asking)
		}
		return err
	})
	slices.SortFunc(ahead, func(a, b plan.Ahead) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Store, b.Store))
	})
	return ahead, err
}

// isAhead asks one store for one peer, until it answers. It gives up when the store has answered nothing for Config.Stall.
func (r *Resolver) isAhead(ctx context.Context, store cluster.StoreID, region cluster.RegionID, moved *atomic.Int64) (uint64, bool, error) {
	for {
		calling, cancel := context.WithTimeout(ctx, aheadCall)
		state, err := r.tikv.RaftState(calling, r.address(store), region)
		cancel()
		if err == nil {
			moved.Store(time.Now().UnixNano())
			return state.Applied, state.Applied > state.Last, nil
		}
		silent := time.Since(time.Unix(0, moved.Load()))
		if ctx.Err() != nil || !failure.Transient(err) || silent > r.cfg.Stall || wait.For(ctx, retryInterval) != nil {
			return 0, false, failure.Annotate(err, "read raft state of region "+region.String(), r.name(store))
		}
		if found, _, err := r.findStores(ctx); err == nil && found[store].Address != "" {
			r.setAddress(store, found[store].Address) // it may have restarted
		}
	}
}
