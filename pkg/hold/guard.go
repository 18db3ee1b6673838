package hold

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// guard enforces the budget: it breaks the hold when the budget is used up. If the hold broke, for this or
// any other reason, and is not released within the grace, as its owner is stuck or its Release is, guard releases it
// in its place, again and again. It ends when Release returns.
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
		h.log.Warn("the broken hold is not released yet: the guard releases it")
		h.stopKeeper()
		err := h.letGo(ctx)
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

// stopGuard ends the guard and waits for it.
func (h *Hold) stopGuard() {
	h.mu.Lock()
	cancel := h.guarded
	h.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	h.guarding.Wait()
}
