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

// Limits on reading marks.
const (
	// MaxCalls is the number of concurrent calls per store.
	MaxCalls = 64
	// MaxRate is the number of calls per second and store: each reads three small keys, so 50,000 regions take 5 s.
	MaxRate = 10_000
	// callLimit bounds one call: a region whose mark takes longer gets none.
	callLimit = 2 * time.Second
	// maxFailures is the number of consecutive failures after which a store is skipped.
	maxFailures = MaxCalls
)

// Source is a store and its address.
type Source struct {
	Store   cluster.StoreID
	Address string
}

// Reading is the result of reading marks.
type Reading struct {
	// Missing lists the stores that do not serve raft states: regions that they lead have no mark.
	Missing []cluster.StoreID
	// Unsettled is how many regions have no mark because their log did not end at a committed entry, they had no
	// leader, or a membership change or merge was in progress.
	Unsettled int
	// Failed is how many have none because their store did not answer.
	Failed int

	marks  []Mark // grouped by store; Region is 0 where there is none
	stores []share
}

// share is the marks read from one store.
type share struct {
	store cluster.StoreID
	marks []Mark
}

// Set returns the marks, except those read from the given stores. It may be called only once, as it does not copy them.
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

// Read reads the regions' marks, each from the store of the leader that PD reports, within MaxCalls and MaxRate per
// store. It calls advance once per region, from many goroutines. A region without a mark is no error; the only error is
// the end of ctx.
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

// storeReader reads marks from one store.
type storeReader struct {
	tikv    tikv.Marker
	source  Source
	regions []cluster.Region
	marks   []Mark // in the order of the calls
	advance func()
	pace    *rate.Limiter

	lacks             atomic.Bool  // the store lacks the service
	inRow             atomic.Int64 // consecutive failed calls
	failed, unsettled atomic.Int64
}

// read reads the mark of regions[index] into marks[at]. Its only error is the end of ctx.
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
	case failure.Is(err, failure.NotFound): // the leader has changed
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
