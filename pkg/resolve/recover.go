package resolve

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
)

// recovery keeps a RecoverRegion call open to every store. TiKV answers it only each 10 s and never gives
// up, while the leaders are there within 50 ms: the calls stay open in the background until the flashback
// is over.
type recovery struct {
	ctx    context.Context //nolint:containedctx // the calls outlive the step that opens them; endRecover cancels it
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	calls  map[cluster.StoreID]*call // the last one to each store

	absences *absences
}

// openAfter is how long a call has to be open before the store is taken to work on it: one to a store that is away
// ends with an error within this time, mostly at once.
const openAfter = 2 * time.Second

// call is one RecoverRegion. err is valid when ended is closed.
type call struct {
	sent    time.Time
	started time.Time // of the store's process, as PD reports it
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

// makeLeaders makes the planned leaders lead. It returns when PD knows the planned leader of every region, and does
// not wait for RecoverRegion's answers unless Config.WaitApply says so. That is safe:
//   - A leader was elected by a majority against their own logs, so it has every committed entry.
//   - A prepare is an entry of the leader's own term, after all that is in its log. Its answer means that it is
//     applied on the leader, and so is all before it; entries of older terms are committed with it. A flashback
//     comes after it and sees all of that.
//   - The other peers apply the same log in the same order, now or after the restart out of recovery mode.
//     Whoever leads later has the prepare and the flashback in its log, because a majority has.
//   - RecoverRegion, still at work, only checks its regions each 10 s and lets those that do not lead stand
//     for election; a leader that stands is left as it is.
func (r *Resolver) makeLeaders(ctx context.Context, s *phase.Scope) error {
	stores, err := r.pd.Stores(ctx)
	if err != nil {
		return failure.Annotate(err, "list stores", r.cfg.Cluster.String())
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.recover = &recovery{ctx: base, cancel: cancel, calls: map[cluster.StoreID]*call{}, absences: newAbsences(r.log)}
	started := startTimes(stores)
	for _, store := range r.cfg.Stores {
		r.send(store, started[store]) //nolint:contextcheck // the recovery outlives the step that asked
	}
	ctx, stop := r.bounded(ctx, "elect leaders", leadersBase, leadersEach)
	defer stop()
	if err := r.awaitLeaders(ctx, s); err != nil {
		return err
	}
	return r.handOver(ctx, s)
}

// send opens a call to one store when the one before it, if any, has ended: two of our own must not end each
// other, or they would be taken for another run's.
func (r *Resolver) send(store cluster.StoreID, started time.Time) {
	rec, address, commands := r.recover, r.stores.address(store), r.plan.Commands[store]
	ctx, cancel := context.WithCancel(rec.ctx)
	c := &call{sent: time.Now(), started: started, cancel: cancel, ended: make(chan struct{})}
	rec.mu.Lock()
	before := rec.calls[store]
	rec.calls[store] = c
	rec.mu.Unlock()
	rec.wg.Go(func() {
		defer close(c.ended)
		defer cancel()
		if before != nil {
			before.cancel()
			<-before.ended
		}
		c.err = r.tikv.Recover(ctx, address, commands)
		if c.err != nil && ctx.Err() == nil {
			rec.absences.failed(store, c.err)
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

// resend asks the stores again that restarted since they were asked: their leaders are gone for good. It
// fails when another run recovers the cluster: asking again would take the stores from each other for ever.
func (r *Resolver) resend(ctx context.Context) error {
	stores, err := r.pd.Stores(ctx)
	if err != nil {
		r.log.Warn("stores cannot be read", zap.Error(err))
		stores = nil // PD may be changing its leader; the stall detector ends a wait that is for nothing
	}
	r.resending.Lock()
	defer r.resending.Unlock()
	if err := r.checkCalls(); err != nil {
		return err
	}
	for _, st := range stores {
		r.recover.mu.Lock()
		last := r.recover.calls[st.ID]
		r.recover.mu.Unlock()
		if last == nil {
			continue // not ours
		}
		over, ended := last.over()
		if over && ended == nil || !over && time.Since(last.sent) > openAfter {
			r.recover.absences.back(st.ID)
		}
		if st.StartedAt.Equal(last.started) && !(over && failure.NotYet(ended)) {
			continue
		}
		if !st.StartedAt.Equal(last.started) {
			r.log.Info("store has restarted and is asked again", zap.Stringer("store", st.ID), zap.Time("started", st.StartedAt))
		}
		r.stores.setAddress(st.ID, st.Address)
		r.resent.Add(1)
		r.send(st.ID, st.StartedAt) //nolint:contextcheck // the recovery outlives the step that asked
	}
	return nil
}

// askAgain asks stores again whose regions do not move though no error shows why: an election that was lost
// in a store's full queues (tikv/tikv#15122), or a restart within the second to which PD reports it.
func (r *Resolver) askAgain(stores []cluster.StoreID) {
	r.resending.Lock()
	defer r.resending.Unlock()
	for _, store := range stores {
		r.recover.mu.Lock()
		last := r.recover.calls[store]
		r.recover.mu.Unlock()
		if last == nil {
			continue // not ours
		}
		r.log.Info("asking store again, whose regions do not move", zap.Stringer("store", store))
		r.resent.Add(1)
		r.send(store, last.started)
	}
}

// checkCalls fails if another run's call ended one of ours, or if a store has left recovery mode, as it does when
// another run has finished, or if it refuses for good.
func (r *Resolver) checkCalls() error {
	if r.recover == nil {
		return nil // nothing was asked for yet
	}
	r.recover.mu.Lock()
	defer r.recover.mu.Unlock()
	for _, store := range r.cfg.Stores {
		if c := r.recover.calls[store]; c != nil {
			over, err := c.over()
			switch {
			case over && failure.Is(err, failure.Conflict):
				return r.lose(failure.Annotate(err, "keep leaders", r.stores.name(store)))
			case over && failure.Is(err, failure.Unready):
				return r.lose(failure.New(failure.Conflict, "keep leaders", r.stores.name(store), "it is not in recovery mode any more: %w", err).
					WithHint("look for another run that has resumed the cluster's restore; if there is none, delete the store's pod and %s", r.cfg.resumeHint()))
			case over && err != nil && !failure.NotYet(err) && !errors.Is(err, context.Canceled):
				return failure.Annotate(err, "keep leaders", r.stores.name(store))
			}
		}
	}
	return nil
}

// lose notes a loss that a store shows, and returns its reason.
func (r *Resolver) lose(reason error) error {
	r.cfg.Fence.Lose(reason)
	return reason
}

// endRecover ends the calls that are still open. The leaders stay.
func (r *Resolver) endRecover(context.Context, *phase.Scope) error {
	if r.recover != nil {
		r.recover.cancel()
		r.recover.wg.Wait()
		r.recover.absences.end()
	}
	return nil
}
