package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/wait"
)

// connect opens a stream to every store. Nothing is paused before all answer. With it an attempt begins.
func (t *task) connect(ctx context.Context, s *phase.Scope) error {
	t.result.Attempts++
	t.result.Hold, t.sets, t.backupTS = HoldTimes{}, newSets(), 0
	var targets []hold.Target
	for _, st := range t.source.Topology.Stores {
		targets = append(targets, hold.Target{ID: st.ID, Address: st.Address})
	}
	h, err := hold.New(hold.Config{
		Cluster: t.opts.Cluster, Run: t.opts.Run, Stores: targets,
		Lease: t.opts.Lease, MaxHold: t.opts.MaxHold, Log: s.Log,
		Command: "tisnap release " + t.opts.Cluster.String() + " --storage " + t.Store.URL() + " --yes",
	}, t.PD, t.TiKV)
	if err != nil {
		return err
	}
	t.hold = h
	s.Expect(int64(len(targets)), "stores")
	if err := h.Connect(ctx); err != nil {
		return err
	}
	s.Reached(int64(len(targets)))
	return nil
}

// pause holds the cluster: schedulers, limits, imports and admin commands.
func (t *task) pause(ctx context.Context, s *phase.Scope) error {
	if err := t.intend(ctx, s); err != nil {
		return err
	}
	end := s.Part("schedulers")
	if err := t.hold.PauseScheduling(ctx); err != nil {
		return err
	}
	end()
	defer s.Part("stores")()
	return t.hold.PauseStores(ctx)
}

// intend journals what will be paused in PD, so that a later release knows what is not somebody else's.
func (t *task) intend(ctx context.Context, s *phase.Scope) error {
	lowered, err := t.hold.Lowered(ctx)
	if err != nil {
		return err
	}
	running, err := t.hold.Running(ctx)
	if err != nil {
		return err
	}
	if err := s.Intent(ctx, journal.IntentLimits, lowered); err != nil {
		return err
	}
	return s.Intent(ctx, journal.IntentSchedulers, running)
}

// pauseGC holds GC at the resolved ts of this moment: the backup ts is read later and so is not below it.
func (t *task) pauseGC(ctx context.Context, _ *phase.Scope) error {
	return t.hold.Under(ctx, func(ctx context.Context) error {
		got, err := t.PD.ResolvedTS(ctx)
		if err != nil {
			return failure.Annotate(err, "read resolved ts", t.opts.Cluster.String())
		}
		return t.hold.PauseGC(ctx, got.TS)
	})
}

// readTS reads the backup ts inside the hold and before the cut, so that everything at or below it is in the
// logs that are cut.
func (t *task) readTS(ctx context.Context, s *phase.Scope) error {
	var got pd.ResolvedTS
	err := t.hold.Under(ctx, func(ctx context.Context) (err error) {
		if got, err = t.PD.ResolvedTS(ctx); err != nil {
			return failure.Annotate(err, "read resolved ts", t.opts.Cluster.String())
		}
		return preflight.CheckResolvedTS(ctx, t.PD, t.opts.Cluster, got, t.rules)
	})
	if err != nil {
		return err
	}
	t.backupTS = got.TS
	s.Note("backup ts %s (%s)", got.TS, got.TS.Time().Format(time.RFC3339Nano))
	s.Result(journal.ResultBackupTS, journal.BackupTS{TS: got.TS})
	return nil
}

// release proves the hold and lets the cluster go. If the hold was in doubt the set is worth nothing: the
// step fails, after the cluster was let go. If it cannot be let go here, the step's undo has the last word on
// whether it is held.
func (t *task) release(ctx context.Context, s *phase.Scope) error {
	proof := t.hold.Prove(ctx)
	// A cancelled run lets go all the same; if it takes too long the step's undo tries again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.opts.Lease)
	defer cancel()
	broke, err := t.releaseHold(ctx, s)
	switch {
	case proof != nil:
		return proof
	case broke != nil:
		return broke
	case err != nil:
		return failure.New(failure.Limited, "let go", t.opts.Cluster.String(), "%v", err)
	}
	return nil
}

// letGo is the undo of everything that holds the cluster. Its error is of kind Held.
func (t *task) letGo(ctx context.Context, s *phase.Scope) error {
	_, err := t.releaseHold(ctx, s)
	return err
}

// releaseAgain is how long a release waits before it tries what is left.
const releaseAgain = 500 * time.Millisecond

// releaseHold tries until everything is let go or ctx ends: PD may be without a leader for a while, and what a
// store that is away holds runs out within one lease.
func (t *task) releaseHold(ctx context.Context, s *phase.Scope) (broke, err error) {
	defer t.noteHold()
	for tries := 0; ; tries++ {
		broke, err = t.hold.Release(ctx)
		if err == nil {
			return broke, nil
		}
		if tries == 0 {
			s.Warn("not let go yet, trying again: %v", err)
		}
		if wait.For(ctx, releaseAgain) != nil {
			return broke, err
		}
	}
}

// disconnect closes the streams of a hold that paused nothing, or was let go.
func (t *task) disconnect(context.Context, *phase.Scope) error {
	if t.hold != nil {
		t.hold.Disconnect()
	}
	return nil
}

// noteHold takes the length of the hold when it ends for the first time.
func (t *task) noteHold() {
	if t.result.Hold.Length == 0 {
		t.result.Hold.Start, t.result.Hold.Length = t.hold.Started(), t.hold.Length()
	}
}

// storeParts are the hold's times of each store, and the cut's.
func (t *task) storeParts() []hold.StoreParts {
	stores := t.hold.StoreParts()
	for i := range stores {
		if took, ok := t.sets.took(stores[i].Store); ok {
			stores[i].Parts = append(stores[i].Parts, phase.Part{Name: "cut", Seconds: took.Seconds()})
		}
	}
	return stores
}
