package hold

import (
	"context"
	"errors"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/wait"
)

// keep renews everything that is held at a third of the lease, until ctx ends. Leases on stores must not
// lapse even once, so their first failure breaks the hold; PD may be away for a change of leader, so its
// failures break it only when they last longer than one renewal.
func (h *Hold) keep(ctx context.Context) {
	ticker := time.NewTicker(h.renewal())
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := h.renewOnce(ctx); err != nil && ctx.Err() == nil {
			h.breakWith(err)
			return
		}
	}
}

func (h *Hold) renewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.renewal())
	defer cancel()
	return parallel.Each(ctx, 0, []func(context.Context) error{h.renewStores, h.renewPD},
		func(ctx context.Context, _ int, renew func(context.Context) error) error { return renew(ctx) })
}

func (h *Hold) renewStores(ctx context.Context) error {
	return parallel.Each(ctx, 0, h.stores, func(ctx context.Context, _ int, s *store) error {
		s.mu.Lock()
		held := s.answered
		s.mu.Unlock()
		var errs []error
		if held.imports {
			errs = append(errs, s.suspendImports(ctx, h.tikv, h.Service(), h.cfg.Lease))
		}
		if held.lease {
			errs = append(errs, s.renew(ctx, h.cfg.Lease))
		}
		return errors.Join(errs...)
	})
}

// renewPD tries until its third of the lease is over: a new PD leader needs a moment. A conflict
// that PD reports is not tried again.
func (h *Hold) renewPD(ctx context.Context) error {
	for {
		err := h.unbroken(ctx)
		if err == nil {
			err = errors.Join(h.renewScheduling(ctx), h.renewGC(ctx))
		}
		if err == nil || failure.Is(err, failure.Conflict) || wait.For(ctx, settleInterval) != nil {
			return err
		}
	}
}
