package hold

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// guard breaks the hold when it exceeds its budget. If the hold broke, for any reason, and is not released within the
// grace because its owner or its Release is stuck, guard keeps releasing it in their place. It ends when Release
// returns.
func (h *Hold) guard(ctx context.Context) {
	budget := time.NewTimer(h.cfg.MaxHold)
	defer budget.Stop()
	select {
	case <-ctx.Done():
		return
	case <-h.lost:
	case <-budget.C:
		h.breakWith(
			failure.New(failure.Limited, "", "", "it took longer than %s %s: %w", h.cfg.Budget, h.cfg.MaxHold,
				ErrBudget))
	}
	for wait.For(ctx, h.cfg.Grace) == nil {
		h.log.Warn("the broken hold has not been released in time: the guard releases it")
		h.stopKeeper()
		err := h.releaseHeld(ctx)
		if err == nil {
			return
		}
		h.log.Warn("the guard could not release the hold", zap.Error(err))
	}
}

func (h *Hold) stopKeeper() {
	h.mu.Lock()
	cancel := h.keeper
	h.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	h.keeping.Wait()
}

// stopGuard stops the guard and waits for it.
func (h *Hold) stopGuard() {
	h.mu.Lock()
	cancel := h.guarded
	h.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	h.guarding.Wait()
}
