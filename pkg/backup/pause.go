package backup

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// PauseDeps are a pause's dependencies. All are required unless noted.
type PauseDeps struct {
	PD   PD
	TiKV TiKV
	Log  *zap.Logger
	// EarlyApply turns early apply off while the cluster is held; nil changes nothing.
	EarlyApply tikv.EarlyApplier
	// Remains tracks what is held, for a process that ends before releasing it; nil tracks nothing.
	Remains *phase.Remains
}

// PauseOptions are what the user chose for a pause.
type PauseOptions struct {
	Cluster cluster.Name
	Run     cluster.RunID
	// Lease is how long the cluster stays held if the process dies, and how long acquiring the whole hold may take.
	Lease time.Duration
	// MaxHold bounds how long it is held.
	MaxHold time.Duration
	// Holder is where the process runs, for others who find the cluster held; may be zero.
	Holder hold.Holder
	// EarlyApply is what to do about TiKV's early apply; empty is PreventEarlyApply.
	EarlyApply EarlyApplyPolicy
	// SafePoint is where GC is held; zero is the resolved ts.
	SafePoint cluster.TS
	// Ready is called once the whole hold is acquired and proven.
	Ready func()
}

// beat is how often a pause is renewed: the process that cuts under it waits for two renewals while the cluster is
// held.
const beat = 2 * time.Second

// Pause holds a cluster for a backup by another process until ctx ends, then releases everything and returns nil. If
// the hold breaks or cannot be acquired, it also releases everything and returns an error at once. Kind Held means that
// something could not be released.
func Pause(ctx context.Context, deps PauseDeps, o PauseOptions) error {
	if o.Holder.Host != "" {
		o.Holder.Ends = time.Now().Add(earlyApplyLimit + replicasLimit + o.MaxHold + o.Lease)
		o.Run = o.Holder.Sign(o.Run)
	}
	targets, err := checkPausable(ctx, deps, o)
	if err != nil {
		return err
	}
	h, err := hold.New(hold.Config{
		Cluster: o.Cluster, Run: o.Run, Stores: targets, Lease: o.Lease, Beat: min(beat, o.Lease/3), MaxHold: o.MaxHold,
		Budget: "a pause's limit of", Log: deps.Log,
		Command: "tisnap release " + o.Cluster.String() + " --all, or wait",
	}, deps.PD, deps.TiKV)
	if err != nil {
		return err
	}
	defer h.Disconnect()
	deps.Remains.Set(phase.RemainsHold, h.Remains)
	old, err := pauseEarlyApply(ctx, deps, o)
	if err == nil {
		err = holdUntil(ctx, deps.PD, h, o)
	}
	failed := err
	// Whatever ended it, the release is retried until the leases have expired.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Lease+releaseInterval)
	defer cancel()
	lost, err := releaseUntil(ctx, h, func(err error) { deps.Log.Warn("not released yet, retrying", zap.Error(err)) })
	if len(old) > 0 {
		_, earlyErr := putBack(ctx, deps.PD, deps.EarlyApply, o.Cluster, old)
		if earlyErr == nil {
			deps.Remains.Clear(phase.RemainsEarlyApply)
		}
		err = errors.Join(err, earlyErr)
	}
	unpublish(ctx, deps, o)
	switch {
	case err != nil:
		return err
	case failed != nil:
		return failed
	case lost != nil:
		deps.Log.Warn("the hold broke before it was released", zap.Error(lost))
	}
	return nil
}

// checkPausable refuses, before anything is paused, stores that are not up, a cluster held by another tool, and
// imports. It returns the stores.
func checkPausable(ctx context.Context, deps PauseDeps, o PauseOptions) ([]hold.Target, error) {
	targets, err := allTargets(ctx, deps.PD, o.Cluster)
	if err != nil {
		return nil, err
	}
	if err := hold.CheckForeign(ctx, o.Cluster, deps.PD, hold.Own{Run: o.Run}); err != nil {
		return nil, err
	}
	stores := make([]cluster.Store, 0, len(targets))
	for _, target := range targets {
		stores = append(stores, cluster.Store{ID: target.ID, Address: target.Address})
	}
	running, err := preflight.RunningImports(ctx, deps.PD, deps.TiKV, stores)
	if err != nil {
		return nil, err
	}
	if len(running) > 0 {
		return nil, preflight.RefuseImports(o.Cluster, running)
	}
	return targets, nil
}

// allTargets returns all TiKV stores in PD, each of which must be up.
func allTargets(ctx context.Context, p pd.Members, name cluster.Name) ([]hold.Target, error) {
	live, err := preflight.LiveStores(ctx, p, name)
	if err != nil {
		return nil, err
	}
	targets := make([]hold.Target, 0, len(live))
	for _, st := range live {
		targets = append(targets, hold.Target{ID: st.ID, Address: st.Address})
	}
	return targets, nil
}

// holdUntil acquires the hold, proves it, calls Ready and waits. Once the hold is acquired the end of ctx is not an
// error.
func holdUntil(ctx context.Context, p PD, h *hold.Hold, o PauseOptions) error {
	if err := acquireWithin(ctx, p, h, o); err != nil {
		return err
	}
	o.Ready()
	held, cancel := h.Context(ctx)
	defer cancel()
	<-held.Done()
	if cause := context.Cause(held); errors.Is(cause, hold.ErrBroken) {
		return cause
	}
	return nil
}

// acquireWithin ends a hold that does not get ready: its backup would wait for it with some stores held.
func acquireWithin(ctx context.Context, p PD, h *hold.Hold, o PauseOptions) error {
	limited, cancel := context.WithTimeout(ctx, o.Lease)
	defer cancel()
	err := acquire(limited, p, h, o)
	if err == nil || limited.Err() == nil || ctx.Err() != nil {
		return err
	}
	return failure.New(failure.Limited, "hold", o.Cluster.String(), "it was not held within %s: %w", o.Lease, err).
		WithHint("find out which store or PD does not answer, and run it again")
}

// acquire acquires the whole hold. GC comes last: its safe point shows others that the rest is held.
func acquire(ctx context.Context, p PD, h *hold.Hold, o PauseOptions) error {
	if err := h.Connect(ctx); err != nil {
		return err
	}
	if err := h.PauseScheduling(ctx); err != nil {
		return err
	}
	if err := h.PauseStores(ctx); err != nil {
		return err
	}
	ts := o.SafePoint
	if ts == 0 {
		got, err := p.ResolvedTS(ctx)
		if err != nil {
			return failure.Annotate(err, "read resolved ts", o.Cluster.String())
		}
		ts = got.TS
	}
	if ts == 0 {
		return failure.New(failure.Unready, "read resolved ts", o.Cluster.String(),
			"PD has none: no store reports it yet")
	}
	if err := h.PauseGC(ctx, ts); err != nil {
		return err
	}
	return h.Prove(ctx)
}
