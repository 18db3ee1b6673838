package resolve

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// gathering reads what every store has. Everything except the readers' streams belongs to one goroutine.
type gathering struct {
	cfg    *settings
	tikv   tikv.Recoverer
	stores *storeList
	asked  <-chan question

	metas   *plan.Metas
	readers []*reader // in the order of Config.Stores
	ended   chan struct{}
	streams sync.WaitGroup
	listed  time.Time // when PD last answered
	coming  bool      // another step still waits for the stores

	absences *absences
}

// reader reads one store.
type reader struct {
	store   cluster.StoreID
	listed  bool      // by PD
	started time.Time // start of the store's process that is or was read, as PD reports it
	cancel  context.CancelFunc
	result  chan error // of the stream, if there is one
	done    bool       // all was read
	early   bool       // the last stream was opened while another step still waited for the store
	err     error      // of the last stream

	count atomic.Int64 // metas received
	seen  int64        // of them when moved was set
	moved time.Time    // when the last one came
}

func newGathering(cfg *settings, t tikv.Recoverer, stores *storeList, asked <-chan question) *gathering {
	g := &gathering{
		cfg: cfg, tikv: t, stores: stores, asked: asked,
		metas: plan.NewMetas(), ended: make(chan struct{}, 1), listed: time.Now(), absences: newAbsences(cfg.log),
	}
	for _, id := range cfg.Stores {
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
	g.absences.end()
}

// takeEnded takes the results of ended streams.
func (g *gathering) takeEnded() {
	for _, rd := range g.readers {
		if rd.result == nil {
			continue
		}
		select {
		case rd.err = <-rd.result:
			rd.result, rd.done = nil, rd.err == nil
			if rd.err != nil {
				g.absences.failed(rd.store, rd.err)
			} else {
				g.absences.back(rd.store)
			}
		default:
		}
	}
}

// begin opens a stream to each unread store without one. A store that restarted after it was read is read again: it may
// have applied more of its log.
func (g *gathering) begin(ctx context.Context, found map[cluster.StoreID]pd.Store) {
	g.listed = time.Now()
	for _, rd := range g.readers {
		st, ok := found[rd.store]
		rd.listed = ok && st.Address != ""
		if !rd.listed {
			continue
		}
		if !st.StartedAt.Equal(rd.started) && (rd.done || rd.result != nil) {
			g.cfg.log.Warn("store has restarted and is read again", zap.Stringer("store", rd.store),
				zap.Time("started", st.StartedAt))
			rd.done = false
			rd.cancel()
		}
		if rd.done || rd.result != nil || rd.hopeless() {
			continue
		}
		rd.started = st.StartedAt
		g.stores.setAddress(rd.store, st.Address)
		g.open(ctx, rd, st.Address)
	}
}

func (g *gathering) open(ctx context.Context, rd *reader, address string) {
	ctx, rd.cancel = context.WithCancel(ctx)
	result := make(chan error, 1)
	rd.result, rd.early = result, g.coming
	table, began := g.metas.Begin(rd.store), time.Now()
	g.streams.Go(func() {
		err := g.tikv.RegionMetas(ctx, address, func(m tikv.RegionMeta) error {
			rd.count.Add(1)
			return table.Add(&m)
		})
		g.cfg.Times.Note(rd.store, "collect", time.Since(began))
		result <- err
		if err != nil {
			return // a store that refuses at once is retried no more often than PD
		}
		select {
		case g.ended <- struct{}{}:
		default: // already reported
		}
	})
}

// hopeless reports whether retrying the store is useless. What it refused while it was awaited does not count.
func (rd *reader) hopeless() bool { return permanent(rd.err) && !rd.early }

// read returns the number of stores read completely.
func (g *gathering) read() int {
	n := 0
	for _, rd := range g.readers {
		if rd.done {
			n++
		}
	}
	return n
}

// await waits until a store is read completely, a question was answered, or PD must be polled again.
func (g *gathering) await(ctx context.Context) error {
	timer := time.NewTimer(retryInterval)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.ended:
	case q := <-g.asked:
		g.takeEnded()
		q.answer <- g.without(ctx, q.late)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
