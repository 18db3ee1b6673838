package resolve

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
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
}

// call is one RecoverRegion. err is valid when ended is closed.
type call struct {
	started time.Time // of the store's process, as PD told it
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

// elect makes the planned leaders lead. It returns when PD knows the planned leader of every region.
//
// Not waiting for RecoverRegion's answer is safe: a leader was elected by a majority against its own log, so
// it has every committed entry; what is in its log is before anything proposed later, so the prepare that
// goes through raft is applied after it.
func (r *Resolver) elect(ctx context.Context, s *phase.Scope) error {
	stores, err := r.pd.Stores(ctx)
	if err != nil {
		return failure.Annotate(err, "list stores", r.cfg.Cluster.String())
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.recover = &recovery{ctx: base, cancel: cancel, calls: map[cluster.StoreID]*call{}}
	started := startTimes(stores)
	for _, store := range r.cfg.Stores {
		r.send(store, started[store]) //nolint:contextcheck // the recovery outlives the step that asked
	}
	return r.awaitLeaders(ctx, s)
}

// send opens a call to one store when the one before it, if any, has ended: two of our own must not end each
// other, or they would look like somebody else's.
func (r *Resolver) send(store cluster.StoreID, started time.Time) {
	rec, address := r.recover, r.address(store)
	ctx, cancel := context.WithCancel(rec.ctx)
	c := &call{started: started, cancel: cancel, ended: make(chan struct{})}
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
		c.err = r.tikv.Recover(ctx, address, r.plan.Commands[store])
		if c.err != nil && ctx.Err() == nil {
			r.log.Warn("recover ended", zap.Stringer("store", store), zap.Error(c.err))
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

// awaitLeaders polls PD until every planned region has its planned leader; meanwhile it pauses PD's
// schedulers as they appear and asks restarted stores again. Nothing new for Config.Stall is an error.
func (r *Resolver) awaitLeaders(ctx context.Context, s *phase.Scope) error {
	s.Expect(int64(len(r.plan.Leaders)), "regions")
	best, moved := -1, time.Now()
	for {
		if _, err := r.pauseSchedulers(ctx); err != nil {
			r.log.Warn("schedulers are not paused yet", zap.Error(err))
		}
		if err := r.resend(ctx); err != nil {
			return err
		}
		led, missing, err := r.led(ctx)
		if err != nil {
			r.log.Warn("regions cannot be read yet", zap.Error(err))
		}
		if led > best && err == nil {
			best, moved = led, time.Now()
			s.Reached(int64(led))
		}
		if err == nil && len(missing) == 0 {
			return nil
		}
		if time.Since(moved) > r.cfg.Stall {
			return failure.New(failure.Limited, "wait for leaders", r.cfg.Cluster.String(),
				"%d of %d regions lead and nothing changed for %s: %s", best, len(r.plan.Leaders), r.cfg.Stall, list(missing)).
				WithHint("look at the stores' logs for these regions, then run the restore again")
		}
		if err := wait.For(ctx, again); err != nil {
			return failure.New(failure.Limited, "wait for leaders", r.cfg.Cluster.String(), "%d of %d regions lead: %s: %w",
				best, len(r.plan.Leaders), list(missing), err)
		}
	}
}

// led counts the planned regions whose leader in PD is on the planned store.
func (r *Resolver) led(ctx context.Context) (n int, missing []string, err error) {
	regions, err := r.pd.Regions(ctx, cluster.KeyRange{})
	if err != nil {
		return 0, nil, err
	}
	leaders := make(map[cluster.RegionID]cluster.StoreID, len(regions))
	for _, reg := range regions {
		leaders[reg.ID] = reg.Leader.Store
	}
	for _, l := range r.plan.Leaders {
		if leaders[l.Region] == l.Store {
			n++
			continue
		}
		missing = append(missing, fmt.Sprintf("region %s on store %s", l.Region, l.Store))
	}
	return n, missing, nil
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
	if err := r.takenOver(); err != nil {
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
		if st.StartedAt.Equal(last.started) && !(over && lost(ended)) {
			continue
		}
		r.log.Info("asking store again", zap.Stringer("store", st.ID), zap.Time("started", st.StartedAt), zap.Error(ended))
		r.setAddress(st.ID, st.Address)
		r.send(st.ID, st.StartedAt) //nolint:contextcheck // the recovery outlives the step that asked
	}
	return nil
}

// takenOver fails if another run's call ended one of ours.
func (r *Resolver) takenOver() error {
	r.recover.mu.Lock()
	defer r.recover.mu.Unlock()
	for _, store := range r.cfg.Stores {
		if c := r.recover.calls[store]; c != nil {
			if over, err := c.over(); over && failure.Is(err, failure.Conflict) {
				r.lostToOther.Store(true)
				return failure.Annotate(err, "keep leaders", r.name(store))
			}
		}
	}
	return nil
}

// lost reports whether a call ended without having done its work. A Conflict is not asked again: somebody
// else recovers the cluster.
func lost(err error) bool {
	return err != nil && !failure.Is(err, failure.Conflict) && !errors.Is(err, context.Canceled)
}

// apply waits until every store has applied the logs of all its peers. A store whose calls have
// failed for Config.Stall ends the run; one that works on its log may take as long as it takes.
func (r *Resolver) apply(ctx context.Context, s *phase.Scope) error {
	s.Expect(int64(len(r.cfg.Stores)), "stores")
	return r.eachStore(ctx, func(ctx context.Context, _ int, store cluster.StoreID) error {
		var failing time.Time // since when every call failed
		for {
			err := r.tikv.WaitApply(ctx, r.address(store), store)
			if err == nil {
				s.Advance(1)
				return nil
			}
			if failing.IsZero() {
				failing = time.Now()
			}
			if time.Since(failing) > r.cfg.Stall {
				return failure.New(failure.Limited, "wait apply", r.name(store), "it has not answered for %s: %w", r.cfg.Stall, err).
					WithHint("look at the log of the store's pod, then run the restore again")
			}
			if !lost(err) || wait.For(ctx, again) != nil {
				return failure.Annotate(err, "wait apply", r.name(store))
			}
			if err := r.resend(ctx); err != nil {
				return err
			}
		}
	})
}

// endRecover ends the calls that are still open. The leaders stay.
func (r *Resolver) endRecover(context.Context, *phase.Scope) error {
	if r.recover != nil {
		r.recover.cancel()
		r.recover.wg.Wait()
	}
	return nil
}
