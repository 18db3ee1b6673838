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

// How replicas are read: as marks are.
const (
	maxCalls  = 64     // calls that one store gets at the same time
	maxRate   = 10_000 // calls that one store gets in a second
	callLimit = 2 * time.Second
	// maxFailures is after how many calls in a row that failed a store is left alone.
	maxFailures = maxCalls
	// reads is how often a replica is read that seems to be ahead: its log is read before its data, so that one that is
	// written at this moment may seem so.
	reads       = 8
	rereadAfter = 20 * time.Millisecond
)

// Replicas is what the stores have said of all their replicas, region by region.
type Replicas struct {
	regions []reading // by id
	started map[cluster.StoreID]time.Time
}

// reading is one region: 40 bytes, of a million regions.
type reading struct {
	id               cluster.RegionID
	confVer, version uint64
	// the sum of all replicas' terms: none of them ever falls, so that a sum that is the same says that all are
	terms       uint64
	read, level bool // all replicas were read; none was ahead
}

// Len is the number of regions.
func (r *Replicas) Len() int { return len(r.regions) }

// Stores are those that were asked, in order: early apply was off there.
func (r *Replicas) Stores() []cluster.StoreID { return slices.Sorted(maps.Keys(r.started)) }

// Asked reports whether the store is one of them.
func (r *Replicas) Asked(id cluster.StoreID) bool {
	_, asked := r.started[id]
	return asked
}

// ReadReplicas reads each replica of the regions that is on one of the stores, leader or not: one that led a moment ago
// may be ahead, too. A replica that cannot be read, also as ctx ends, is no error: nothing is proven of its region
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

// tally is what several stores say of one region at the same time.
type tally struct {
	read, ahead atomic.Int32
	terms       atomic.Uint64
}

// storeReader asks one store.
type storeReader struct {
	tikv    tikv.Marker
	address string
	regions []cluster.Region
	tallies []tally
	pace    *rate.Limiter
	inRow   atomic.Int64 // calls that failed, one after the other
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
			return nil
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

// Unproven compares what the replicas said before the cut, with early apply off on all stores that were asked, and what
// they say after it. It gives the stores whose process is another one since, on which nothing is proven, and the
// regions of which a replica may be ahead at the cut.
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
