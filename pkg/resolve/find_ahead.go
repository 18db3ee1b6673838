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
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// EarlyApply is what was found about replicas that are ahead before the regions got leaders: it cannot be seen
// afterwards.
type EarlyApply struct {
	Affected []plan.Ahead `json:"affected,omitempty"`
	// Rebuild are the replicas to rebuild from the others once the stores have left recovery mode: the affected ones,
	// and their stores' replicas of regions that split off since.
	Rebuild []Replica `json:"rebuild,omitempty"`
	// Removed means that none of them is left: what PD creates from then on is created from the others.
	Removed bool `json:"removed,omitempty"`
}

// present reports whether a replica that is ahead may still exist.
func (e *EarlyApply) present() bool { return e != nil && len(e.Affected) > 0 && !e.Removed }

// aheadCall bounds one read of a raft state, of three small reads.
const aheadCall = 10 * time.Second

// aheadReader finds the replicas that are ahead.
type aheadReader struct {
	cfg    *settings
	tikv   tikv.Marker
	stores *storeList
}

// read reads the raft state of each peer on every store, and lists by region and store those that are ahead.
func (a *aheadReader) read(
	ctx context.Context, s *phase.Scope, peers map[cluster.StoreID][]cluster.RegionID,
) ([]plan.Ahead, error) {
	total := 0
	for _, regions := range peers {
		total += len(regions)
	}
	s.Expect(int64(total), "peers")
	var mu sync.Mutex
	var ahead []plan.Ahead
	err := parallel.Each(ctx, 0, a.cfg.Stores, func(ctx context.Context, _ int, store cluster.StoreID) error {
		pace, moved := rate.NewLimiter(marks.MaxRate, marks.MaxCalls), &atomic.Int64{}
		moved.Store(time.Now().UnixNano())
		asking, end := context.WithCancelCause(ctx) // by the first unreadable region: the others would fail alike
		defer end(nil)
		one := func(ctx context.Context, _ int, region cluster.RegionID) error {
			if err := pace.Wait(ctx); err != nil {
				return err
			}
			applied, is, err := a.isAhead(ctx, store, region, moved)
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
		}
		err := parallel.Each(asking, marks.MaxCalls, peers[store], one)
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

// isAhead asks one store about one peer until it answers. It fails if the store has not answered for Config.Stall.
func (a *aheadReader) isAhead(
	ctx context.Context, store cluster.StoreID, region cluster.RegionID, moved *atomic.Int64,
) (applied uint64, ahead bool, err error) {
	for {
		calling, cancel := context.WithTimeout(ctx, aheadCall)
		state, err := a.tikv.RaftState(calling, a.stores.address(store), region)
		cancel()
		if err == nil {
			moved.Store(time.Now().UnixNano())
			return state.Applied, state.Applied > state.Last, nil
		}
		silent := time.Since(time.Unix(0, moved.Load()))
		if ctx.Err() != nil || !failure.Transient(err) || silent > a.cfg.Stall || wait.For(ctx, retryInterval) != nil {
			return 0, false, failure.Annotate(err, "read raft state of region "+region.String(), a.stores.name(store))
		}
		if found, _, err := a.stores.find(ctx); err == nil && found[store].Address != "" {
			a.stores.setAddress(store, found[store].Address) // it may have restarted
		}
	}
}
