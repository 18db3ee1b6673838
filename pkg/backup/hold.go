package backup

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// holder holds a cluster for a run, and releases what earlier processes of the run held.
type holder struct {
	pd    hold.PD
	tikv  tikv.Holder
	fence *runlock.Fence
	// storage is named in the command that releases the cluster.
	storage interface{ URL() string }
	opts    Options

	own     hold.Own  // paused by earlier attempts of the run
	expires time.Time // when earlier processes' leases on stores have expired; zero if there was none
}

// open makes a hold of these stores that holds nothing yet. It refuses a cluster held by another tool.
func (o *holder) open(ctx context.Context, log *zap.Logger, of []cluster.Store) (*hold.Hold, error) {
	if err := o.checkForeign(ctx); err != nil {
		return nil, err
	}
	targets := make([]hold.Target, 0, len(of))
	for _, st := range of {
		targets = append(targets, hold.Target{ID: st.ID, Address: st.Address})
	}
	return hold.New(hold.Config{
		Cluster: o.opts.Cluster, Run: o.opts.Run, Stores: targets,
		Lease: o.opts.Lease, MaxHold: o.opts.MaxHold, Log: log, Fence: o.fence,
		Command: "tisnap release " + o.opts.Cluster.String() + " --storage " + o.storage.URL() + " --yes",
	}, o.pd, o.tikv)
}

// checkForeign refuses a cluster held by another tool: connecting would end that hold.
func (o *holder) checkForeign(ctx context.Context) error {
	if o.opts.OtherHolds {
		return nil // the other process's hold is wanted
	}
	own := o.own
	own.Run, own.AnyPause = o.opts.Run, o.opts.OnImport == preflight.PauseOnImport
	return hold.CheckForeign(ctx, o.opts.Cluster, o.pd, own)
}

// pause holds the cluster: schedulers, limits, imports and admin commands.
func (o *holder) pause(ctx context.Context, s *phase.Scope, h *hold.Hold) error {
	if err := o.intend(ctx, s, h); err != nil {
		return err
	}
	end := s.Part("schedulers")
	if err := h.PauseScheduling(ctx); err != nil {
		return err
	}
	end()
	defer s.Part("stores")()
	return h.PauseStores(ctx)
}

// intend journals how long the stores may be held, so that a later release knows when a dead store holds nothing, and
// what will be paused in PD, so that it knows what is this run's.
func (o *holder) intend(ctx context.Context, s *phase.Scope, h *hold.Hold) error {
	leases := journal.Leases{LeaseSeconds: o.opts.Lease.Seconds(), MaxHoldSeconds: o.opts.MaxHold.Seconds()}
	if err := s.Intent(ctx, journal.IntentLeases, leases); err != nil {
		return err
	}
	lowered, err := h.Lowered(ctx)
	if err != nil {
		return err
	}
	running, err := h.Running(ctx)
	if err != nil {
		return err
	}
	o.own.Limits, o.own.Schedulers = append(o.own.Limits, lowered...), append(o.own.Schedulers, running...)
	if err := s.Intent(ctx, journal.IntentLimits, lowered); err != nil {
		return err
	}
	return s.Intent(ctx, journal.IntentSchedulers, running)
}

// releaseLeftovers releases what earlier processes of the run hold. It returns the stores that do not answer but cannot
// hold anything of it any more. Its error is of kind Held.
func (o *holder) releaseLeftovers(ctx context.Context) (dead []cluster.StoreID, err error) {
	done, err := hold.ReleaseLeftovers(ctx, hold.DeadHolds{
		Cluster: o.opts.Cluster, Schedulers: o.own.Schedulers, Limits: o.own.Limits, Expires: o.expires,
	}, o.pd, o.tikv)
	if done != nil {
		dead = done.Unreached
	}
	return dead, err
}

// learn finds out what earlier processes of the run paused in PD, which is not another tool's hold, and until when they
// may have held stores.
func (o *holder) learn(f *journal.BackupFacts) {
	o.expires = heldUntil(f.Holds)
	o.own.Schedulers = append(o.own.Schedulers, f.Paused.Schedulers...)
	o.own.Limits = append(o.own.Limits, f.Paused.Limits...)
}

// releaseInterval is the time between two attempts to release.
const releaseInterval = 500 * time.Millisecond

// releaseUntil retries until everything is released or ctx ends: PD may have no leader for a while, and the lease of an
// unreachable store expires. It calls warn once.
func releaseUntil(ctx context.Context, h *hold.Hold, warn func(error)) (lost, err error) {
	warned := false
	err = wait.Until(ctx, wait.Every(releaseInterval), func() (bool, error) {
		if lost, err = h.Release(ctx); err != nil && !warned {
			warned = true
			warn(err)
		}
		return err == nil, err
	})
	return lost, wait.Reason(err)
}
