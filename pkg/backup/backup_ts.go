package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/wait"
)

// How long to wait, inside the hold, for a resolved ts that can become the backup ts, and how often to read it.
const (
	maxTSWait      = 15 * time.Second
	tsPollInterval = 200 * time.Millisecond
)

// timestamps reads PD's resolved ts for a run. It never accepts one below one that it has read before.
type timestamps struct {
	pd      preflight.PD
	opts    Options
	highest cluster.TS // of all resolved ts read by the run
}

// saw records a resolved ts read elsewhere: none may be below it.
func (t *timestamps) saw(ts cluster.TS) { t.highest = max(t.highest, ts) }

// now reads PD's current resolved ts.
func (t *timestamps) now(ctx context.Context) (cluster.TS, error) {
	got, err := t.pd.ResolvedTS(ctx)
	if err != nil {
		return 0, failure.Annotate(err, "read resolved ts", t.opts.Cluster.String())
	}
	t.saw(got.TS)
	return got.TS, nil
}

// awaitUnder returns, while h holds the cluster, a resolved ts that satisfies the rules and at or below which no region
// has a lock. Versions are the regions' before the hold.
func (t *timestamps) awaitUnder(
	ctx context.Context, s *phase.Scope, h *hold.Hold, rules preflight.TSRules, versions map[cluster.RegionID]uint64,
) (cluster.TS, error) {
	limit := min(maxTSWait, t.opts.MaxHold/4)
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var unready error
	for {
		got, why, err := t.try(waiting, s, h, rules, versions)
		switch {
		case err != nil && waiting.Err() != nil && ctx.Err() == nil && unready != nil: // the wait ended during a call
		case err != nil:
			return 0, err
		case why == nil:
			return got, h.CoversTS(got)
		case unready == nil:
			s.Note("waiting for a newer resolved ts: %v", why)
			fallthrough
		default:
			unready = why
		}
		if wait.For(waiting, tsPollInterval) == nil {
			continue
		}
		if ctx.Err() != nil {
			return 0, failure.Annotate(context.Cause(ctx), "read backup ts", t.opts.Cluster.String())
		}
		return 0, failure.New(failure.Limited, "read backup ts", t.opts.Cluster.String(), "not within %s: %w",
			limit, unready).
			WithHint("%s", failure.HintOf(unready))
	}
}

// try reads the resolved ts; unready is why it cannot be the backup ts yet.
func (t *timestamps) try(
	ctx context.Context, s *phase.Scope, h *hold.Hold, rules preflight.TSRules, versions map[cluster.RegionID]uint64,
) (ts cluster.TS, unready, err error) {
	got, err := t.pd.ResolvedTS(ctx)
	if err != nil {
		return 0, nil, failure.Annotate(err, "read resolved ts", t.opts.Cluster.String())
	}
	if unready = t.checkForward(got.TS, s); unready != nil {
		return 0, unready, nil
	}
	if err := preflight.CheckResolvedTS(ctx, t.pd, t.opts.Cluster, got, rules); err != nil {
		return 0, nil, err
	}
	err = h.CheckLocks(ctx, got.TS, versions)
	if failure.Is(err, failure.Unready) {
		return 0, err, nil
	}
	return got.TS, nil, err
}

// checkForward refuses a resolved ts below an earlier one of this run: resolved stays resolved, so PD has gone back, as
// after a leader change.
func (t *timestamps) checkForward(ts cluster.TS, s *phase.Scope) error {
	if ts >= t.highest {
		t.highest = ts
		return nil
	}
	s.Warn("PD's resolved ts went back from %s (%s) to %s (%s)", t.highest, t.highest.Time(), ts, ts.Time())
	return failure.New(failure.Unready, "read resolved ts", t.opts.Cluster.String(),
		"PD went back to %s (%s) from %s (%s), which this run has read before",
		ts, ts.Time(), t.highest, t.highest.Time()).
		WithHint("find out whether PD's leader changed or its clock went back; run it again once the resolved ts has " +
			"passed the earlier one")
}
