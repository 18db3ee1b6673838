package backup

import (
	"context"
	"errors"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// beginAttempt waits, before the hold, for what the cut would wait for. Between two attempts the wait for a steady
// cluster does that.
func (r *run) beginAttempt(ctx context.Context, s *phase.Scope) error {
	r.at = newAttempt(r.at.number + 1)
	if r.at.number > 1 {
		return nil
	}
	return r.room().awaitSpacing(ctx, s, r.source.Source)
}

// connect opens a stream to every store, which begins an attempt. Nothing is paused before all answer.
func (r *run) connect(ctx context.Context, s *phase.Scope) error {
	if err := r.beginAttempt(ctx, s); err != nil {
		return err
	}
	h, err := r.holder.open(ctx, s.Log, r.source.Topology.Stores)
	if err != nil {
		return err
	}
	r.at.holds(h)
	r.at.note(r.Remains, r.remover().how())
	stores := int64(len(r.source.Topology.Stores))
	s.Expect(stores, "stores")
	if err := h.Connect(ctx); err != nil {
		return err
	}
	s.Reached(stores)
	return nil
}

// observe finds another process's hold, and that process's part of the proof of early apply. The hold is proven after
// the cut and never changed.
func (r *run) observe(ctx context.Context, s *phase.Scope) error {
	if err := r.beginAttempt(ctx, s); err != nil {
		return err
	}
	h, left, err := r.findHold(ctx, s)
	if err != nil {
		if h != nil {
			h.Disconnect()
		}
		return err
	}
	r.at.holds(h)
	s.Note("the cluster is held by %s", h.Service())
	if !r.early.proving() {
		return nil
	}
	return r.early.adoptPublished(s, left, h.Run(), r.source.Topology.Stores)
}

// findHold finds the hold, and concurrently reads what its process has published for the proof of early apply.
func (r *run) findHold(ctx context.Context, s *phase.Scope) (h *hold.Hold, left published, err error) {
	targets, err := allTargets(ctx, r.PD, r.opts.Cluster)
	if err != nil {
		return nil, left, err
	}
	s.Note("looking for the hold of another process")
	err = allOrFirst(ctx, []func(context.Context) error{
		func(ctx context.Context) (err error) { h, err = r.holder.observe(ctx, s.Log, targets); return err },
		func(ctx context.Context) error {
			if r.early.proving() {
				left = r.early.readPublished(ctx)
			}
			return nil
		},
	}, func(ctx context.Context, find func(context.Context) error) error { return find(ctx) })
	return h, left, err
}

// disconnect closes the streams of a hold that paused nothing or was released.
func (r *run) disconnect(context.Context, *phase.Scope) error {
	if r.at.hold != nil {
		r.at.hold.Disconnect()
	}
	return nil
}

// pause holds the cluster: schedulers, limits, imports and admin commands.
func (r *run) pause(ctx context.Context, s *phase.Scope) error {
	return r.holder.pause(ctx, s, r.at.hold)
}

// pauseGC holds GC at the current resolved ts: the backup ts is read later and so is not below it.
func (r *run) pauseGC(ctx context.Context, _ *phase.Scope) error {
	return r.at.hold.Under(ctx, func(ctx context.Context) error {
		now, err := r.ts.now(ctx)
		if err != nil {
			return err
		}
		return r.at.hold.PauseGC(ctx, now)
	})
}

// endHold releases the cluster. Its error is of kind Held.
func (r *run) endHold(ctx context.Context, s *phase.Scope) error {
	_, err := r.at.release(ctx, s)
	return err
}

// readTS reads the backup ts inside the hold and before the cut, so that the cut's logs have everything at or below it.
// It is not below any that the run has read before, and nothing at or below it is locked.
func (r *run) readTS(ctx context.Context, s *phase.Scope) error {
	var ts cluster.TS
	err := r.at.hold.Under(ctx, func(ctx context.Context) (err error) {
		ts, err = r.ts.awaitUnder(ctx, s, r.at.hold, r.source.rules, r.source.regions)
		return err
	})
	if err != nil {
		return err
	}
	r.at.cutsAt(ts)
	s.Note("backup ts %s (%s)", ts, ts.Time().Format(time.RFC3339Nano))
	s.Result(journal.ResultBackupTS, journal.BackupTS{TS: ts})
	return nil
}

// cut requests one multi-volume set per instance, all concurrently. It fails if a set fails or the hold breaks; the
// step's undo deletes what was created.
func (r *run) cut(ctx context.Context, s *phase.Scope) error {
	times, err := r.cutter().cut(ctx, s, r.at.hold, r.source.Source, r.at.sets)
	r.at.wasCut(times)
	if err != nil {
		return err
	}
	r.records.nameCut(ctx, s, &r.source.Topology, r.at.sets.snapshots(r.source.Topology.Stores))
	return nil
}

// deleteSnapshots deletes all snapshots with the run's tag and all that an answer named, except those requested by a
// later process of the run. While a request is ambiguous it lists them again, until EC2 cannot hide them any more.
func (r *run) deleteSnapshots(ctx context.Context, s *phase.Scope) error {
	return r.deleteMade(ctx, s, r.at.sets)
}

// deleteMade deletes these sets, everything else with the run's tag, and their stored documents.
func (r *run) deleteMade(ctx context.Context, s *phase.Scope, made *sets) error {
	if err := r.records.bury(ctx); err != nil {
		return err
	}
	if err := r.remover().remove(ctx, s, made); err != nil {
		return err
	}
	r.Remains.Clear(remainsSnapshots)
	if err := r.marks.drop(ctx, s); err != nil {
		return err
	}
	return r.catalog.ForgetCutForBR(ctx, r.opts.Run)
}

// release proves the hold and releases the cluster. If the hold was in doubt the set is worthless, and the step fails
// once the cluster is released. If that fails here, the step's undo decides whether the cluster is still held.
func (r *run) release(ctx context.Context, s *phase.Scope) error {
	early, unproven := r.proveHold(ctx, s)
	// A cancelled run releases it, too; if that takes too long the step's undo retries.
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.Lease)
	defer cancel()
	lost, err := r.at.release(releasing, s)
	switch {
	case unproven != nil:
		return unproven
	case r.at.hold.Proven():
		r.prove(ctx, s, early)
		if err == nil {
			r.early.end(ctx, s)
		} else { // the set is good; the run ends with the error of PD's release
			r.at.notReleased(err)
			s.Result(journal.ResultStillHeld, err.Error())
			s.Warn("the cut is proven, but PD could not be released yet; finishing the backup, then retrying: %v", err)
		}
		return r.early.require(r.at.proof.EarlyApply)
	case lost != nil:
		return lost
	case err != nil:
		return failure.New(failure.Limited, "release", r.opts.Cluster.String(), "%v", err)
	}
	return failure.New(failure.Unknown, "release", r.opts.Cluster.String(),
		"there is no proof that the cluster was held during the whole cut")
}

// proveHold proves that the hold lasted for the whole cut. Another process's hold lasts until this run has recorded its
// cut, and is proven by waiting for its renewals; meanwhile the replicas are read again for the proof of early apply.
func (r *run) proveHold(ctx context.Context, s *phase.Scope) (early *manifest.EarlyApply, err error) {
	if !r.opts.OtherHolds {
		return nil, r.at.hold.Prove(ctx)
	}
	err = allOrFirst(ctx, []func(context.Context) error{
		r.at.hold.Prove,
		func(ctx context.Context) error { early = r.early.prove(ctx, s, r.source.Topology.Stores); return nil },
	}, func(ctx context.Context, prove func(context.Context) error) error { return prove(ctx) })
	return early, err
}

// prove records what the steps after the release need; early is the proof of early apply of a cut under another
// process's hold.
func (r *run) prove(ctx context.Context, s *phase.Scope, early *manifest.EarlyApply) {
	p := proof{Source: r.source.Source, Started: r.runner.Started()}
	if r.opts.OtherHolds {
		p.HeldBy, p.EarlyApply = r.at.hold.Run(), early
	} else {
		p.EarlyApply = r.early.prove(ctx, s, r.source.Topology.Stores)
	}
	p.Marks = r.marks.keep(ctx, s)
	_, p.Regions = r.marks.kept()
	r.at.recordProof(p)
}

// releaseAgain releases, once the backup is sealed, what the release could not. The undo of the release, after a
// failure, decides whether the cluster is still held.
func (r *run) releaseAgain(ctx context.Context, s *phase.Scope) error {
	err := errors.Join(r.releaseLate(ctx, s), r.early.endLate(ctx, s))
	if err != nil {
		return failure.New(failure.Partial, "release", r.opts.Cluster.String(), "the backup is sealed, but %v", err)
	}
	return nil
}

// releaseLate releases what the release could not. Its error is of kind Held.
func (r *run) releaseLate(ctx context.Context, s *phase.Scope) error {
	if r.at.stillHeld == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Lease)
	defer cancel()
	if r.at.hold == nil {
		_, err := r.holder.releaseLeftovers(ctx)
		return err
	}
	defer r.at.hold.Disconnect()
	_, err := r.at.release(ctx, s)
	return err
}
