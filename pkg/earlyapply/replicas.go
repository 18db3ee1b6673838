package earlyapply

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Limits of reading replicas, the same as for marks.
const (
	maxCalls  = 64     // concurrent calls per store
	maxRate   = 10_000 // calls per second and store
	callLimit = 2 * time.Second
	// maxFailures is the number of consecutive failed calls after which a store is skipped.
	maxFailures = maxCalls
	// reads is how often a replica that seems ahead is read: its log is read before its data, so that one being written
	// to may seem ahead.
	reads       = 8
	rereadAfter = 20 * time.Millisecond
)

// Replicas is what the stores report about all their replicas, by region.
type Replicas struct {
	regions []reading // by id
	started map[cluster.StoreID]time.Time
}

// reading is one region's; 40 bytes, as there may be a million.
type reading struct {
	id               cluster.RegionID
	confVer, version uint64
	// the sum of all replicas' terms: none ever decreases, so an equal sum means that all are equal
	terms       uint64
	read, level bool // all replicas were read; none was ahead
}

// Len returns the number of regions.
func (r *Replicas) Len() int { return len(r.regions) }

// Stores returns the stores that were asked, in order: early apply was off there.
func (r *Replicas) Stores() []cluster.StoreID { return slices.Sorted(maps.Keys(r.started)) }

// Asked reports whether the store was asked.
func (r *Replicas) Asked(id cluster.StoreID) bool {
	_, asked := r.started[id]
	return asked
}

// ReadReplicas reads all replicas of the regions on these stores, leaders or not: one that led a moment ago may be
// ahead, too. A replica that cannot be read, even because ctx ends, is not an error: nothing is proven of its region
// then.
func ReadReplicas(ctx context.Context, t tikv.Marker, stores []Store, regions []cluster.Region) *Replicas {
	tallies := make([]tally, len(regions))
	on := make(map[cluster.StoreID][]int, len(stores))
	for i := range regions {
		for _, p := range regions[i].Peers {
			on[p.Store] = append(on[p.Store], i)
		}
	}
	out := &Replicas{regions: make([]reading, len(regions)), started: make(map[cluster.StoreID]time.Time, len(stores))}
	_ = parallel.Each(ctx, 0, stores, func(ctx context.Context, _ int, s Store) error {
		reader := &storeReader{
			tikv: t, address: s.Address, regions: regions, tallies: tallies, pace: rate.NewLimiter(maxRate, maxCalls),
		}
		return parallel.Each(ctx, maxCalls, on[s.ID], reader.read)
	})
	for _, s := range stores {
		out.started[s.ID] = s.StartedAt
	}
	for i := range regions {
		r, wanted := &regions[i], 0
		for _, p := range r.Peers {
			if out.Asked(p.Store) {
				wanted++
			}
		}
		got := &tallies[i]
		out.regions[i] = reading{
			id: r.ID, confVer: r.ConfVer, version: r.Version, terms: got.terms.Load(),
			read: int(got.read.Load()) == wanted, level: got.ahead.Load() == 0,
		}
	}
	slices.SortFunc(out.regions, func(a, b reading) int { return cmp.Compare(a.id, b.id) })
	return out
}

// tally collects what several stores report concurrently about one region.
type tally struct {
	read, ahead atomic.Int32
	terms       atomic.Uint64
}

// storeReader reads one store's replicas.
type storeReader struct {
	tikv    tikv.Marker
	address string
	regions []cluster.Region
	tallies []tally
	pace    *rate.Limiter
	inRow   atomic.Int64 // consecutive failed calls
}

func (s *storeReader) read(ctx context.Context, _, index int) error {
	got := &s.tallies[index]
	for try := 1; ; try++ {
		if s.inRow.Load() >= maxFailures {
			return nil
		}
		if err := s.pace.Wait(ctx); err != nil {
			return err
		}
		state, err := s.ask(ctx, s.regions[index].ID)
		if err != nil {
			s.inRow.Add(1)
			return nil //nolint:nilerr // it is counted, and the region is not read
		}
		s.inRow.Store(0)
		ahead := state.Applied > state.Last
		if ahead && try < reads {
			if err := wait.For(ctx, rereadAfter); err != nil {
				return err
			}
			continue
		}
		if ahead {
			got.ahead.Add(1)
		}
		got.terms.Add(state.Term)
		got.read.Add(1)
		return nil
	}
}

func (s *storeReader) ask(ctx context.Context, region cluster.RegionID) (tikv.RaftState, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	return s.tikv.RaftState(ctx, s.address, region)
}

// Unproven compares what the replicas reported before the cut, with early apply off on all stores asked, with what they
// report after it. It returns the stores whose process was restarted since, of which nothing is proven, and the regions
// with a replica that may be ahead at the cut.
//
// Of the others none is: it was not then, as its data were not ahead of its log; a replica with early apply off applies
// only what its log has; and none has come to lead since, in which case it may have used the setting as it had been
// before it slept: all its replicas' terms are what they were.
func (r *Replicas) Unproven(after *Replicas) (stores []cluster.StoreID, regions []cluster.RegionID) {
	for _, id := range r.Stores() {
		if at, still := after.started[id]; at.IsZero() || !still || !at.Equal(r.started[id]) {
			stores = append(stores, id)
		}
	}
	rest := r.regions
	for _, now := range after.regions {
		for len(rest) > 0 && rest[0].id < now.id {
			rest = rest[1:]
		}
		if len(rest) == 0 || rest[0].id != now.id || !rest[0].holds(now) {
			regions = append(regions, now.id)
		}
	}
	return stores, regions
}

func (was reading) holds(now reading) bool {
	return was.read && was.level && now.read && was.confVer == now.confVer && was.version == now.version &&
		was.terms == now.terms
}
