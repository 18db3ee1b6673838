package hold

import (
	"context"
	"errors"
	"time"
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
	var pdErr, storeErr error
	err := each(ctx, []func(context.Context) error{
		func(ctx context.Context) error { storeErr = h.renewStores(ctx); return storeErr },
		func(ctx context.Context) error { pdErr = h.renewPD(ctx); return pdErr },
	}, func(ctx context.Context, f func(context.Context) error) error { return f(ctx) })
	return err
}

func (h *Hold) renewStores(ctx context.Context) error {
	return each(ctx, h.stores, func(ctx context.Context, s *store) error {
		s.mu.Lock()
		leased, imports := s.leased, s.imports
		s.mu.Unlock()
		var errs []error
		if imports {
			errs = append(errs, s.suspendImports(ctx, h.tikv, h.Service(), h.cfg.Lease))
		}
		if leased {
			errs = append(errs, s.renew(ctx, h.cfg.Lease))
		}
		return errors.Join(errs...)
	})
}

// renewPD tries until its third of the lease is over: a new PD leader needs a moment.
func (h *Hold) renewPD(ctx context.Context) error {
	var err error
	for {
		if err = errors.Join(h.renewScheduling(ctx), h.renewGC(ctx)); err == nil {
			return nil
		}
		if pause(ctx, settleInterval) != nil {
			return err
		}
	}
}
