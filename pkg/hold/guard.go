package hold

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// guard enforces the budget: it breaks the hold when the budget is used up. If the hold broke, for this or
// any other reason, and its owner has not called Release within the grace, as stuck code does not, guard lets
// go in its place. Release ends guard and waits for it; what it has not let go is then Release's.
func (h *Hold) guard(ctx context.Context) {
	budget := time.NewTimer(h.cfg.MaxHold)
	defer budget.Stop()
	select {
	case <-ctx.Done():
		return
	case <-h.lost:
	case <-budget.C:
		h.breakWith(failure.New(failure.Limited, "hold", h.cfg.Cluster.String(), "longer than --max-hold %s", h.cfg.MaxHold))
	}
	for wait.For(ctx, h.cfg.Grace) == nil {
		h.log.Warn("nobody released the broken hold: it is let go")
		h.stopKeeper()
		err := h.letGo(ctx)
		if err == nil {
			return
		}
		h.log.Warn("letting go failed", zap.Error(err))
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

// stop ends the guard and the keeper and waits for both.
func (h *Hold) stop() {
	h.mu.Lock()
	cancel := h.guarded
	h.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	h.guarding.Wait()
	h.stopKeeper()
}
