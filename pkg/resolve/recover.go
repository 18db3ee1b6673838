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

// recovery keeps a RecoverRegion call open to every store. TiKV checks only every 10 s whether it can answer, and never
// gives up, while the leaders exist within 50 ms: the calls stay open in the background until the flashback is over.
type recovery struct {
	cfg    *settings
	pd     pd.Members
	tikv   recoverer
	stores *storeList
	plan   *plan.Plan // whose commands belong to resending

	// send opens a call to one store, once the one before has ended. It outlives the step that asks; end ends it.
	send   func(store cluster.StoreID, started time.Time)
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	calls  map[cluster.StoreID]*call // the last call to each store

	resending sync.Mutex // one read of the stores at a time
	resent    atomic.Int64
	waited    bool // for every store's log, before the flashback
	absences  *absences
}

// recoverer is what a recovery needs from the stores.
type recoverer interface {
	tikv.Recoverer
	tikv.Marker
}

// last returns the last call to the store; nil if the store is not ours.
func (r *recovery) last(store cluster.StoreID) *call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[store]
}

// openAfter is how long a call must be open before it counts as being worked on: a call to an unreachable store fails
// within this time, mostly at once.
const openAfter = 2 * time.Second

// call is one RecoverRegion. err is valid when ended is closed.
type call struct {
	sent    time.Time
	started time.Time // start of the store's process, as PD reports it
	cancel  context.CancelFunc
	ended   chan struct{}
	err     error
}

// over reports whether the call ended, and how.
func (c *call) over() (bool, error) {
	select {
	case <-c.ended:
		return true, c.err
	default:
		return false, nil
	}
}

// startRecovery opens a call to every store.
func startRecovery(
	ctx context.Context, cfg *settings, p pd.Members, t recoverer, stores *storeList, made *plan.Plan,
) (*recovery, error) {
	list, err := p.Stores(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "list stores", cfg.Cluster.String())
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &recovery{
		cfg: cfg, pd: p, tikv: t, stores: stores, plan: made,
		cancel: cancel, calls: map[cluster.StoreID]*call{}, absences: newAbsences(cfg.log),
	}
	r.send = func(store cluster.StoreID, started time.Time) { r.open(base, store, started) }
	started := startTimes(list)
	for _, store := range cfg.Stores {
		r.send(store, started[store])
	}
	return r, nil
}

// open opens a call to one store once the previous one, if any, has ended: our own calls must not end each other, or
// they would be mistaken for another run's.
func (r *recovery) open(ctx context.Context, store cluster.StoreID, started time.Time) {
	address, commands := r.stores.address(store), r.plan.Commands[store]
	ctx, cancel := context.WithCancel(ctx)
	c := &call{sent: time.Now(), started: started, cancel: cancel, ended: make(chan struct{})}
	r.mu.Lock()
	before := r.calls[store]
	r.calls[store] = c
	r.mu.Unlock()
	r.wg.Go(func() {
		defer close(c.ended)
		defer cancel()
		if before != nil {
			before.cancel()
			<-before.ended
		}
		c.err = r.tikv.Recover(ctx, address, commands)
		if c.err != nil && ctx.Err() == nil {
			r.absences.failed(store, c.err)
		}
	})
}

func startTimes(stores []pd.Store) map[cluster.StoreID]time.Time {
	out := map[cluster.StoreID]time.Time{}
	for _, s := range stores {
		out[s.ID] = s.StartedAt
	}
	return out
}

// resend calls the stores again that restarted since their call: their leaders are gone. It fails if another run is
// recovering the cluster: the runs would take the stores from each other for ever.
func (r *recovery) resend(ctx context.Context) error {
	stores, err := r.pd.Stores(ctx)
	if err != nil {
		r.cfg.log.Warn("stores cannot be read", zap.Error(err))
		stores = nil // PD may be changing its leader; the stall detector ends a futile wait
	}
	r.resending.Lock()
	defer r.resending.Unlock()
	if err := r.checkCalls(); err != nil {
		return err
	}
	for _, st := range stores {
		last := r.last(st.ID)
		if last == nil {
			continue // not ours
		}
		over, ended := last.over()
		if over && ended == nil || !over && time.Since(last.sent) > openAfter {
			r.absences.back(st.ID)
		}
		if st.StartedAt.Equal(last.started) && !(over && failure.NotYet(ended)) {
			continue
		}
		if !st.StartedAt.Equal(last.started) {
			r.cfg.log.Info("store has restarted and is asked again", zap.Stringer("store", st.ID),
				zap.Time("started", st.StartedAt))
		}
		r.stores.setAddress(st.ID, st.Address)
		r.resent.Add(1)
		r.send(st.ID, st.StartedAt)
	}
	return nil
}

// askAgain calls stores again whose regions make no progress without an error: an election was lost in full queues
// (tikv/tikv#15122), or the store restarted within the second to which PD reports that.
func (r *recovery) askAgain(stores []cluster.StoreID) {
	r.resending.Lock()
	defer r.resending.Unlock()
	for _, store := range stores {
		last := r.last(store)
		if last == nil {
			continue // not ours
		}
		r.cfg.log.Info("asking store again, whose regions do not move", zap.Stringer("store", store))
		r.resent.Add(1)
		r.send(store, last.started)
	}
}

// move requests other leaders than the planned ones.
func (r *recovery) move(to map[cluster.RegionID]cluster.StoreID) {
	r.resending.Lock()
	changed := r.plan.Move(to)
	r.resending.Unlock()
	r.askAgain(changed)
}

// checkCalls fails if another run's call ended one of ours, or if a store has left recovery mode, as after another run
// has finished, or refuses permanently.
func (r *recovery) checkCalls() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, store := range r.cfg.Stores {
		if c := r.calls[store]; c != nil {
			over, err := c.over()
			switch {
			case over && failure.Is(err, failure.Conflict):
				return r.lose(failure.Annotate(err, "keep leaders", r.stores.name(store)))
			case over && failure.Is(err, failure.Unready):
				return r.lose(failure.New(failure.Conflict, "keep leaders", r.stores.name(store),
					"it is not in recovery mode any more: %w", err).
					WithHint("look for another run that has resumed the cluster's restore; "+
						"if there is none, delete the store's pod and %s", r.cfg.resumeHint()))
			case over && err != nil && !failure.NotYet(err) && !errors.Is(err, context.Canceled):
				return failure.Annotate(err, "keep leaders", r.stores.name(store))
			}
		}
	}
	return nil
}

// lose records a loss shown by a store, and returns its reason.
func (r *recovery) lose(reason error) error {
	r.cfg.Fence.Lose(reason)
	return reason
}

// end ends the calls that are still open. The leaders stay.
func (r *recovery) end() {
	r.cancel()
	r.wg.Wait()
	r.absences.end()
}
