package marks

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// How marks are read.
const (
	// MaxCalls is how many calls one store gets at the same time.
	MaxCalls = 64
	// MaxRate is how many calls one store gets in a second: each reads three small keys, and 50,000 regions take 5 s.
	MaxRate = 10_000
	// callLimit bounds one call: a region whose mark takes longer goes without.
	callLimit = 2 * time.Second
	// maxFailures is after how many calls in a row that failed a store is left alone.
	maxFailures = MaxCalls
)

// Source says where a store is.
type Source struct {
	Store   cluster.StoreID
	Address string
}

// Reading is what came of reading marks.
type Reading struct {
	// Missing is the stores that do not serve raft states: none of the regions that they lead has a mark.
	Missing []cluster.StoreID
	// Unsettled is how many regions have none as their log did not end at a committed entry, or as they had no leader
	// or a change of members or a merge under way.
	Unsettled int
	// Failed is how many have none as their store did not answer.
	Failed int

	marks  []Mark // store by store; without one Region is 0
	stores []share
}

// share is the marks that were read from one store.
type share struct {
	store cluster.StoreID
	marks []Mark
}

// Set is the marks, without those that were read from the given stores. It may be called once: the marks are not
// copied.
func (r *Reading) Set(without ...cluster.StoreID) *Set {
	for _, s := range r.stores {
		if slices.Contains(without, s.store) {
			clear(s.marks)
		}
	}
	list := slices.DeleteFunc(r.marks, func(m Mark) bool { return m.Region == 0 })
	r.marks, r.stores = nil, nil
	return NewSet(list)
}

// Read reads the marks of the regions, each from the store that PD takes for its leader, with at most MaxCalls calls
// and MaxRate a second a store. advance is called for each region that is done, from many goroutines. A region without
// a mark is no error; the only one is the end of ctx.
func Read(
	ctx context.Context, t tikv.Marker, stores []Source, regions []cluster.Region, advance func(),
) (*Reading, error) {
	led := make(map[cluster.StoreID][]int, len(stores))
	for i := range regions {
		leader := regions[i].Leader.Store
		led[leader] = append(led[leader], i)
	}
	out := &Reading{marks: make([]Mark, len(regions)), Unsettled: len(regions)}
	readers, free := make([]*storeReader, len(stores)), out.marks
	for i, s := range stores {
		n := len(led[s.Store])
		readers[i] = &storeReader{
			tikv: t, regions: regions, source: s, advance: advance, marks: free[:n:n],
			pace: rate.NewLimiter(MaxRate, MaxCalls),
		}
		out.stores = append(out.stores, share{s.Store, free[:n:n]})
		free, out.Unsettled = free[n:], out.Unsettled-n
	}
	err := parallel.Each(ctx, 0, readers, func(ctx context.Context, _ int, s *storeReader) error {
		return parallel.Each(ctx, MaxCalls, led[s.source.Store], s.read)
	})
	if err != nil {
		return nil, failure.Annotate(err, "read marks", "")
	}
	for _, s := range readers {
		out.Unsettled += int(s.unsettled.Load())
		out.Failed += int(s.failed.Load())
		if s.lacks.Load() {
			out.Missing = append(out.Missing, s.source.Store)
		}
	}
	return out, nil
}

// storeReader asks one store.
type storeReader struct {
	tikv    tikv.Marker
	source  Source
	regions []cluster.Region
	marks   []Mark // by the order of the calls
	advance func()
	pace    *rate.Limiter

	lacks             atomic.Bool  // the store has no such service
	inRow             atomic.Int64 // calls that failed, one after the other
	failed, unsettled atomic.Int64
}

// read reads the mark of the region with this index into place number at. Its only error is the end of ctx.
func (s *storeReader) read(ctx context.Context, at, index int) error {
	defer s.advance()
	if s.lacks.Load() || s.inRow.Load() >= maxFailures {
		s.failed.Add(1)
		return nil
	}
	if err := s.pace.Wait(ctx); err != nil {
		return err
	}
	calling, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	region := &s.regions[index]
	state, err := s.tikv.RaftState(calling, s.source.Address, region.ID)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failure.Is(err, failure.Unready):
		s.lacks.Store(true)
		s.failed.Add(1)
	case failure.Is(err, failure.NotFound): // the leader is another one by now
		s.unsettled.Add(1)
	case err != nil:
		s.inRow.Add(1)
		s.failed.Add(1)
	default:
		s.inRow.Store(0)
		mark, ok := Of(region, state)
		if !ok {
			s.unsettled.Add(1)
			break
		}
		s.marks[at] = mark
	}
	return nil
}
