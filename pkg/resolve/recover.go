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
)

// recovery keeps a RecoverRegion call open to every store. TiKV answers it only each 10 s and never gives
// up, while the leaders are there within 50 ms: the calls stay open in the background until the flashback
// is over.
type recovery struct {
	ctx     context.Context //nolint:containedctx // the calls outlive the step that opens them; endRecover cancels it
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	mu      sync.Mutex
	started map[cluster.StoreID]time.Time // of the store's process, as PD tells it, when it was last asked
	errs    map[cluster.StoreID]error
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
	r.recover = &recovery{ctx: base, cancel: cancel, started: startTimes(stores), errs: map[cluster.StoreID]error{}}
	for _, store := range r.cfg.Stores {
		r.send(store)
	}
	return r.awaitLeaders(ctx, s)
}

// send opens the call to one store. Its end is noted; a Conflict means that a newer call replaced it.
func (r *Resolver) send(store cluster.StoreID) {
	rec, address := r.recover, r.addresses[store]
	rec.wg.Go(func() {
		err := r.tikv.Recover(rec.ctx, address, r.plan.Commands[store])
		rec.mu.Lock()
		defer rec.mu.Unlock()
		rec.errs[store] = err
		if err != nil && rec.ctx.Err() == nil {
			r.log.Warn("recover ended", zap.Stringer("store", store), zap.Error(err))
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
		if err := pause(ctx, again); err != nil {
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

// resend asks the stores again that restarted since they were asked: their leaders are gone for good.
func (r *Resolver) resend(ctx context.Context) error {
	stores, err := r.pd.Stores(ctx)
	if err != nil {
		r.log.Warn("stores cannot be read", zap.Error(err))
		return nil // PD may be changing its leader; the stall detector ends a wait that is for nothing
	}
	rec := r.recover
	for _, st := range stores {
		rec.mu.Lock()
		before, known := rec.started[st.ID]
		ended, over := rec.errs[st.ID]
		rec.mu.Unlock()
		if !known || (st.StartedAt.Equal(before) && !(over && lost(ended))) {
			continue
		}
		r.log.Info("asking store again", zap.Stringer("store", st.ID), zap.Time("started", st.StartedAt), zap.Error(ended))
		rec.mu.Lock()
		rec.started[st.ID] = st.StartedAt
		delete(rec.errs, st.ID)
		rec.mu.Unlock()
		r.addresses[st.ID] = st.Address
		r.send(st.ID)
	}
	return nil
}

// lost reports whether a call ended without having done its work. A Conflict is not asked again: somebody
// else recovers the cluster.
func lost(err error) bool {
	return err != nil && !failure.Is(err, failure.Conflict) && !errors.Is(err, context.Canceled)
}

// apply waits until every store has applied the logs of all its peers.
func (r *Resolver) apply(ctx context.Context, s *phase.Scope) error {
	s.Expect(int64(len(r.cfg.Stores)), "stores")
	return r.eachStore(ctx, func(ctx context.Context, _ int, store cluster.StoreID) error {
		for {
			err := r.tikv.WaitApply(ctx, r.addresses[store], store)
			if err == nil {
				s.Advance(1)
				return nil
			}
			if !lost(err) || pause(ctx, again) != nil {
				return failure.Annotate(err, "wait apply", r.name(store))
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
