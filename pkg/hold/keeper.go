package hold

import (
	"context"
	"errors"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/wait"
)

// keep renews everything at each beat, until ctx ends. Store leases must never lapse, so their first failure breaks the
// hold; PD may be changing its leader, so its failures break the hold only if they outlast one renewal.
func (h *Hold) keep(ctx context.Context) {
	ticker := time.NewTicker(h.cfg.Beat)
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

// renewOnce renews the safe point last, so that its renewal proves that all the rest was held until then. Observe
// relies on this.
func (h *Hold) renewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, h.renewal())
	defer cancel()
	err := parallel.Each(ctx, 0, []func(context.Context) error{h.renewStores, h.renewPauses},
		func(ctx context.Context, _ int, renew func(context.Context) error) error { return renew(ctx) })
	if err != nil {
		return err
	}
	return patiently(ctx, h.renewGC)
}

// lastAnswers is how long a release waits for the answers to renewals in flight: they may reveal that the hold had
// broken, which the renewed lease no longer shows. An unanswered renewal makes the set worthless.
const lastAnswers = time.Second

func (h *Hold) renewStores(ctx context.Context) error {
	ctx, release := wait.Outlive(ctx, lastAnswers)
	defer release()
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

// renewPauses renews schedulers and limits after checking that they are still in force.
func (h *Hold) renewPauses(ctx context.Context) error {
	return patiently(ctx, func(ctx context.Context) error {
		if err := h.unbroken(ctx); err != nil {
			return err
		}
		return h.renewScheduling(ctx)
	})
}

// patiently retries until ctx ends: a new PD leader needs a moment. A conflict reported by PD is not retried.
func patiently(ctx context.Context, renew func(context.Context) error) error {
	return wait.Reason(wait.Until(ctx, wait.Every(settleInterval), func() (bool, error) {
		err := renew(ctx)
		return err == nil || failure.Is(err, failure.Conflict), err
	}))
}
