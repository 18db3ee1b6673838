package resolve

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// gathering reads the stores. All but the readers' streams belongs to one goroutine.
type gathering struct {
	r       *Resolver
	metas   *plan.Metas
	readers []*reader // in the order of Config.Stores
	ended   chan struct{}
	streams sync.WaitGroup
	listed  time.Time // when PD answered last
}

// reader is one store on its way.
type reader struct {
	store   cluster.StoreID
	listed  bool      // by PD
	started time.Time // of the store's process that is or was read, as PD reports it
	cancel  context.CancelFunc
	result  chan error // of the stream, if there is one
	done    bool       // all was read
	err     error      // of the last stream

	count atomic.Int64 // metas that came
	seen  int64        // of them when moved was set
	moved time.Time    // since when nothing has come
}

func newGathering(r *Resolver) *gathering {
	g := &gathering{r: r, metas: plan.NewMetas(), ended: make(chan struct{}, 1), listed: time.Now()}
	for _, id := range r.cfg.Stores {
		g.readers = append(g.readers, &reader{store: id, moved: time.Now()})
	}
	return g
}

// stop ends all streams and waits for them.
func (g *gathering) stop() {
	for _, rd := range g.readers {
		if rd.cancel != nil {
			rd.cancel()
		}
	}
	g.streams.Wait()
}

// settle takes the results of the streams that have ended.
func (g *gathering) settle() {
	for _, rd := range g.readers {
		if rd.result == nil {
			continue
		}
		select {
		case rd.err = <-rd.result:
			rd.result, rd.done = nil, rd.err == nil
			if rd.err != nil {
				g.r.log.Info("store will be asked again", zap.Stringer("store", rd.store), zap.Error(rd.err))
			}
		default:
		}
	}
}

// begin opens a stream to each store that has none and is not read. A store whose process was started again after
// it was asked is read again: it may have applied more of its log.
func (g *gathering) begin(ctx context.Context, found map[cluster.StoreID]pd.Store) {
	g.listed = time.Now()
	for _, rd := range g.readers {
		st, ok := found[rd.store]
		rd.listed = ok && st.Address != ""
		if !rd.listed {
			continue
		}
		if !st.StartedAt.Equal(rd.started) && (rd.done || rd.result != nil) {
			g.r.log.Warn("store has restarted and is read again", zap.Stringer("store", rd.store), zap.Time("started", st.StartedAt))
			rd.done = false
			rd.cancel()
		}
		if rd.done || rd.result != nil || permanent(rd.err) {
			continue
		}
		rd.started = st.StartedAt
		g.r.setAddress(rd.store, st.Address)
		g.open(ctx, rd, st.Address)
	}
}

func (g *gathering) open(ctx context.Context, rd *reader, address string) {
	ctx, rd.cancel = context.WithCancel(ctx)
	result := make(chan error, 1)
	rd.result = result
	table := g.metas.Begin(rd.store)
	g.streams.Go(func() {
		result <- g.r.tikv.RegionMetas(ctx, address, func(m tikv.RegionMeta) error {
			rd.count.Add(1)
			return table.Add(&m)
		})
		select {
		case g.ended <- struct{}{}:
		default: // it is said already
		}
	})
}

// read is the number of stores that are read to their end.
func (g *gathering) read() int {
	n := 0
	for _, rd := range g.readers {
		if rd.done {
			n++
		}
	}
	return n
}

// permanent reports whether asking again is of no use. A store that does not serve its metas is not in recovery
// mode, and does not enter it by itself.
func permanent(err error) bool {
	return err != nil && !failure.Transient(err) && !errors.Is(err, context.Canceled)
}

// judge ends the run when a store answers what will not change, or when nothing came from one for
// Config.Stall: a process that dies on its volumes each time would hold up the run for ever. pdErr is why PD
// does not list the stores, if it does not: it may have no leader, or be without a store yet.
func (g *gathering) judge(pdErr error) error {
	now := time.Now()
	if pdErr != nil && (permanent(pdErr) && !failure.Is(pdErr, failure.Unready) || now.Sub(g.listed) > g.r.cfg.Stall) {
		return pdErr
	}
	var late []string
	for _, rd := range g.readers {
		if permanent(rd.err) && !rd.done && rd.result == nil {
			return failure.Annotate(rd.err, "read region metas", g.r.name(rd.store))
		}
		if n := rd.count.Load(); n != rd.seen || rd.done {
			rd.seen, rd.moved = n, now
		}
		if now.Sub(rd.moved) <= g.r.cfg.Stall {
			continue
		}
		switch {
		case !rd.listed:
			late = append(late, "store "+rd.store.String()+" is missing")
		case rd.err != nil:
			late = append(late, "nothing comes from "+g.r.name(rd.store)+": "+rd.err.Error())
		default:
			late = append(late, "nothing comes from "+g.r.name(rd.store))
		}
	}
	if len(late) == 0 {
		return nil
	}
	return failure.New(failure.Limited, "read region metas", g.r.cfg.Cluster.String(), "for %s: %s", g.r.cfg.Stall, failure.List(late)).
		WithHint("look at the log of the store's pod: its process may not run on what its volumes hold; " +
			"a store that does not come back can be left out with tisnap resolve --tolerate-store if every region has a quorum on the others")
}

// await returns when a stream has ended, or it is time to poll PD again.
func (g *gathering) await(ctx context.Context) error {
	timer := time.NewTimer(retryInterval)
	defer timer.Stop()
	// A store that refuses at once is not asked more often than PD.
	var ended chan struct{}
	for _, rd := range g.readers {
		if rd.err == nil && !rd.done {
			ended = g.ended
		}
	}
	select {
	case <-timer.C:
	case <-ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
