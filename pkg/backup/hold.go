package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
)

// connect opens a stream to every store. Nothing is paused before all answer.
func (t *task) connect(ctx context.Context, s *phase.Scope) error {
	var targets []hold.Target
	for _, st := range t.source.Topology.Stores {
		targets = append(targets, hold.Target{ID: st.ID, Address: st.Address})
	}
	h, err := hold.New(hold.Config{
		Cluster: t.opts.Cluster, Run: t.opts.Run, Stores: targets,
		Lease: t.opts.Lease, MaxHold: t.opts.MaxHold, Log: s.Log,
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
	ctx, cancel := t.hold.Context(ctx)
	defer cancel()
	running, err := t.hold.Running(ctx)
	if err != nil {
		return err
	}
	if err := s.Intent(ctx, intentSchedulers, running); err != nil {
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

// pauseGC holds GC at the resolved ts of this moment: the backup ts is read later and so is not below it.
func (t *task) pauseGC(ctx context.Context, _ *phase.Scope) error {
	ctx, cancel := t.hold.Context(ctx)
	defer cancel()
	got, err := t.PD.ResolvedTS(ctx)
	if err != nil {
		return failure.Annotate(err, "read resolved ts", t.opts.Cluster.String())
	}
	return t.hold.PauseGC(ctx, got.TS)
}

// readTS reads the backup ts inside the hold and before the cut, so that everything at or below it is in the
// logs that are cut.
func (t *task) readTS(ctx context.Context, s *phase.Scope) error {
	ctx, cancel := t.hold.Context(ctx)
	defer cancel()
	got, err := t.PD.ResolvedTS(ctx)
	if err != nil {
		return failure.Annotate(err, "read resolved ts", t.opts.Cluster.String())
	}
	if err := preflight.CheckResolvedTS(ctx, t.PD, t.opts.Cluster, got.TS, "", t.opts.MaxLag); err != nil {
		return err
	}
	t.backupTS = got.TS
	s.Note("backup ts %s (%s)", got.TS, got.TS.Time().Format(time.RFC3339Nano))
	s.Result("backup-ts", struct {
		TS cluster.TS `json:"ts,string"`
	}{got.TS})
	return nil
}

// release proves the hold and lets the cluster go. If the hold was in doubt the set is worth nothing: the
// step fails, after the cluster was let go.
func (t *task) release(ctx context.Context, _ *phase.Scope) error {
	proof := t.hold.Prove(ctx)
	// A cancelled run lets go all the same; if it takes too long the step's undo tries again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.opts.Lease)
	defer cancel()
	broke, err := t.hold.Release(ctx)
	t.noteHold()
	switch {
	case err != nil:
		return err
	case proof != nil:
		return proof
	}
	return broke
}

// letGo is the undo of everything that holds the cluster.
func (t *task) letGo(ctx context.Context, _ *phase.Scope) error {
	if t.hold == nil {
		return nil
	}
	_, err := t.hold.Release(ctx)
	t.noteHold()
	return err
}

// noteHold takes the length of the hold when it ends for the first time.
func (t *task) noteHold() {
	if t.result.Hold.Length == 0 {
		t.result.Hold.Start, t.result.Hold.Length = t.hold.Started(), t.hold.Length()
	}
}
