package backup

import (
	"context"
	"errors"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/wait"
)

// connect opens a stream to every store. Nothing is paused before all answer. With it an attempt begins.
func (r *run) connect(ctx context.Context, s *phase.Scope) error {
	r.result.Attempts++
	r.result.Hold, r.sets, r.backupTS = HoldTimes{}, newSets(), 0
	if err := r.awaitSpacing(ctx, s); err != nil {
		return err
	}
	if err := r.checkForeign(ctx); err != nil {
		return err
	}
	targets := r.targets()
	h, err := hold.New(hold.Config{
		Cluster: r.opts.Cluster, Run: r.opts.Run, Stores: targets,
		Lease: r.opts.Lease, MaxHold: r.opts.MaxHold, Log: s.Log, Fence: r.fence,
		Command: "tisnap release " + r.opts.Cluster.String() + " --storage " + r.Store.URL() + " --yes",
	}, r.PD, r.TiKV)
	if err != nil {
		return err
	}
	r.hold = h
	r.noteAttempt()
	s.Expect(int64(len(targets)), "stores")
	if err := h.Connect(ctx); err != nil {
		return err
	}
	s.Reached(int64(len(targets)))
	return nil
}

// targets are the stores of the backup.
func (r *run) targets() []hold.Target {
	var targets []hold.Target
	for _, st := range r.source.Topology.Stores {
		targets = append(targets, hold.Target{ID: st.ID, Address: st.Address})
	}
	return targets
}

// checkForeign refuses a cluster that another tool holds: to connect would end the other's hold.
func (r *run) checkForeign(ctx context.Context) error {
	if r.opts.OtherHolds {
		return nil // the other's hold is what is wanted
	}
	own := r.own
	own.Run, own.AnyPause = r.opts.Run, r.opts.OnImport == preflight.PauseOnImport
	return hold.CheckForeign(ctx, r.opts.Cluster, r.PD, own)
}

// pause holds the cluster: schedulers, limits, imports and admin commands.
func (r *run) pause(ctx context.Context, s *phase.Scope) error {
	if err := r.intend(ctx, s); err != nil {
		return err
	}
	end := s.Part("schedulers")
	if err := r.hold.PauseScheduling(ctx); err != nil {
		return err
	}
	end()
	defer s.Part("stores")()
	return r.hold.PauseStores(ctx)
}

// intend journals for how long the stores may be held, so that a later release knows when a store that is dead for good
// holds nothing, and what will be paused in PD, so that it knows what is not somebody else's.
func (r *run) intend(ctx context.Context, s *phase.Scope) error {
	leases := journal.Leases{LeaseSeconds: r.opts.Lease.Seconds(), MaxHoldSeconds: r.opts.MaxHold.Seconds()}
	if err := s.Intent(ctx, journal.IntentLeases, leases); err != nil {
		return err
	}
	lowered, err := r.hold.Lowered(ctx)
	if err != nil {
		return err
	}
	running, err := r.hold.Running(ctx)
	if err != nil {
		return err
	}
	r.own.Limits, r.own.Schedulers = append(r.own.Limits, lowered...), append(r.own.Schedulers, running...)
	if err := s.Intent(ctx, journal.IntentLimits, lowered); err != nil {
		return err
	}
	return s.Intent(ctx, journal.IntentSchedulers, running)
}

// pauseGC holds GC at the resolved ts of this moment: the backup ts is read later and so is not below it.
func (r *run) pauseGC(ctx context.Context, _ *phase.Scope) error {
	return r.hold.Under(ctx, func(ctx context.Context) error {
		got, err := r.PD.ResolvedTS(ctx)
		if err != nil {
			return failure.Annotate(err, "read resolved ts", r.opts.Cluster.String())
		}
		r.highestTS = max(r.highestTS, got.TS)
		return r.hold.PauseGC(ctx, got.TS)
	})
}

// release proves the hold and releases the cluster. If the hold was in doubt the set is worth nothing: the
// step fails, after the cluster was released. If it cannot be released here, the step's undo has the last word on
// whether it is held.
func (r *run) release(ctx context.Context, s *phase.Scope) error {
	proof := r.proveHold(ctx, s)
	// A cancelled run releases it all the same; if it takes too long the step's undo retries.
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.Lease)
	defer cancel()
	lost, err := r.releaseHold(releasing, s)
	switch {
	case proof != nil:
		return proof
	case r.hold.Proven() && err != nil:
		r.prove(ctx, s)
		// The set is good; that PD is not released is the cluster's trouble, and is what the run ends with.
		r.stillHeld = err
		s.Result(journal.ResultStillHeld, err.Error())
		s.Warn("the cut is proven, and PD is not released yet: the backup is finished first, then it is tried again: %v", err)
		return r.requireProof()
	case r.hold.Proven():
		r.prove(ctx, s)
		r.endEarlyApply(ctx, s)
		return r.requireProof()
	case lost != nil:
		return lost
	case err != nil:
		return failure.New(failure.Limited, "release", r.opts.Cluster.String(), "%v", err)
	}
	return failure.New(failure.Unknown, "release", r.opts.Cluster.String(), "nothing says that the cluster was held during the whole cut")
}

// releaseAgain releases what the release had to leave, once the backup is sealed. The undo of the release, which
// follows a failure, has the last word on whether the cluster is held.
func (r *run) releaseAgain(ctx context.Context, s *phase.Scope) error {
	err := errors.Join(r.releaseLate(ctx, s), r.endLate(ctx, s))
	if err != nil {
		return failure.New(failure.Partial, "release", r.opts.Cluster.String(), "the backup is sealed, but %v", err)
	}
	return nil
}

// releaseLate releases what the release had to leave. Its error is of kind Held.
func (r *run) releaseLate(ctx context.Context, s *phase.Scope) error {
	if r.stillHeld == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Lease)
	defer cancel()
	if r.hold == nil {
		return r.releaseLeftovers(ctx)
	}
	defer r.hold.Disconnect()
	_, err := r.releaseHold(ctx, s)
	return err
}

// letGo releases everything that is held of the cluster. Its error is of kind Held.
func (r *run) letGo(ctx context.Context, s *phase.Scope) error {
	_, err := r.releaseHold(ctx, s)
	return err
}

// releaseInterval is how long a release waits before it retries what is left.
const releaseInterval = 500 * time.Millisecond

// releaseHold tries until everything is released or ctx ends: PD may be without a leader for a while, and what a
// store that is away holds runs out within one lease.
func (r *run) releaseHold(ctx context.Context, s *phase.Scope) (lost, err error) {
	defer r.noteHold()
	return releaseUntil(ctx, r.hold, func(err error) { s.Warn("not released yet, retrying: %v", err) })
}

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

// disconnect closes the streams of a hold that paused nothing, or was released.
func (r *run) disconnect(context.Context, *phase.Scope) error {
	if r.hold != nil {
		r.hold.Disconnect()
	}
	return nil
}

// noteHold takes the length of the hold when it ends for the first time.
func (r *run) noteHold() {
	if r.result.Hold.Length == 0 {
		r.result.Hold.Start, r.result.Hold.Length = r.hold.Started(), r.hold.Length()
	}
}

// storeParts are the hold's times of each store, and the cut's.
func (r *run) storeParts() []phase.StoreParts {
	stores := r.hold.StoreParts()
	for i := range stores {
		for _, st := range r.source.Topology.Stores {
			if st.ID == stores[i].Store {
				stores[i].Pod = st.Pod
			}
		}
		if took, ok := r.sets.took(stores[i].Store); ok {
			stores[i].Parts = append(stores[i].Parts, phase.Part{Name: "cut", Seconds: took.Seconds()})
		}
	}
	return stores
}
