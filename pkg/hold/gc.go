package hold

import (
	"context"
	"fmt"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// PauseGC holds garbage collection at ts, and fails if GC has already passed ts. A later call may raise ts.
func (h *Hold) PauseGC(ctx context.Context, ts cluster.TS) error {
	defer h.parts.start("pause gc")()
	return h.Under(ctx, func(ctx context.Context) error {
		h.begin(ctx)
		h.mu.Lock()
		h.safePoint = ts
		h.mu.Unlock()
		return h.renewGC(ctx)
	})
}

// CoversTS fails unless GC is held at or below ts. Only then does Prove, which finds GC at or below the held point,
// show that the set has every version that a restore to ts needs.
func (h *Hold) CoversTS(ts cluster.TS) error {
	h.mu.Lock()
	held := h.safePoint
	h.mu.Unlock()
	if held == 0 || held > ts {
		return failure.New(failure.Conflict, "check gc", h.cfg.Cluster.String(),
			"GC is held at %d, not at or below the backup ts %d", held, ts)
	}
	return nil
}

func (h *Hold) renewGC(ctx context.Context) error {
	h.mu.Lock()
	ts := h.safePoint
	h.mu.Unlock()
	if ts == 0 {
		return nil
	}
	if err := h.fenced(); err != nil {
		return err
	}
	h.lasts()
	lowest, err := h.pd.HoldGC(ctx, h.Service(), ts, h.cfg.Lease)
	if err != nil {
		return failure.Annotate(err, "hold gc", h.cfg.Cluster.String())
	}
	return h.passed(lowest, ts)
}

func (h *Hold) passed(lowest, ts cluster.TS) error {
	if lowest <= ts {
		return nil
	}
	return failure.New(failure.Unready, "hold gc", h.cfg.Cluster.String(),
		"the GC safe point %d (%s) is past %d (%s)", lowest, lowest.Time(), ts, ts.Time()).
		WithHint("raise tidb_gc_life_time, and find out why the resolved ts lags")
}

// checkGC verifies that our safe point exists and that GC has not passed it.
func (h *Hold) checkGC(ctx context.Context) error {
	h.mu.Lock()
	ts := h.safePoint
	h.mu.Unlock()
	if ts == 0 {
		return nil
	}
	services, gc, err := h.pd.SafePoints(ctx)
	if err != nil {
		return failure.Annotate(err, "list safe points", h.cfg.Cluster.String())
	}
	if err := h.passed(gc, ts); err != nil {
		return err
	}
	for _, s := range services {
		if s.Service == h.Service() {
			return h.passed(s.TS, ts)
		}
	}
	return failure.New(failure.Conflict, "hold gc", h.cfg.Cluster.String(), "the safe point of %s is gone", h.Service())
}

func (h *Hold) releaseGC(ctx context.Context) error {
	h.mu.Lock()
	held := h.safePoint != 0
	h.mu.Unlock()
	if !held || h.overInPD() {
		return nil
	}
	if err := h.pd.ReleaseGC(ctx, h.Service()); err != nil {
		return failure.Annotate(err, "release gc", fmt.Sprintf("%s (service %s)", h.cfg.Cluster, h.Service()))
	}
	h.mu.Lock()
	h.safePoint = 0
	h.mu.Unlock()
	return nil
}
