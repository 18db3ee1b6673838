package restore

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/fromarchive"
)

const stepAwaitSnapshots = "await-snapshots"

// snapshotSteps make the snapshots of an archive before anything else is made, which may wait for them for hours; none
// without one.
func (r *run) snapshotSteps() []phase.Step {
	if r.making.snapshots == nil {
		return nil
	}
	return []phase.Step{
		{
			Phase: phaseSnapshots, Name: journal.StepWriteSnapshots, Deadline: fromarchive.WriteDeadline,
			Do: r.writeSnapshots,
			Undo: phase.Undo{
				Do: r.undoSnapshots, Deadline: r.opts.Timeout + r.opts.Visibility, Kept: r.making.keptSnapshots(),
			},
			Resume: phase.Resumption{State: &r.making.made, Adopted: r.making.adoptSnapshots},
		},
		{
			Phase: phaseSnapshots, Name: stepAwaitSnapshots, Deadline: fromarchive.AwaitDeadline, Do: r.awaitSnapshots,
			Resume: phase.Resumption{Adopted: r.adoptCompleted},
		},
	}
}

// deleteSnapshotsSteps delete them once the cluster serves.
func (r *run) deleteSnapshotsSteps() []phase.Step {
	if r.making.snapshots == nil {
		return nil
	}
	return []phase.Step{{
		Phase: r.lastPhase(), Name: journal.StepDeleteSnapshots, Deadline: r.opts.Timeout, Do: r.deleteSnapshots,
		Order: phase.Order{Ends: []string{journal.StepWriteSnapshots}},
	}}
}

// writeSnapshots makes a snapshot of each archived volume, and puts all of its blocks.
func (r *run) writeSnapshots(ctx context.Context, s *phase.Scope) error {
	return r.making.writeSnapshots(ctx, s, r.backup.Manifest)
}

func (m *making) writeSnapshots(ctx context.Context, s *phase.Scope, of *manifest.Manifest) (err error) {
	m.made, err = m.snapshots.Write(ctx, s, of)
	return err
}

// adoptSnapshots takes over the snapshots that an earlier process made.
func (m *making) adoptSnapshots(ctx context.Context, s *phase.Scope) error {
	m.snapshots.Adopt(ctx, s, m.made)
	return nil
}

// awaitSnapshots waits until EBS has completed all snapshots, and plans the volumes of them.
func (r *run) awaitSnapshots(ctx context.Context, s *phase.Scope) error {
	if err := r.making.snapshots.Await(ctx, s, r.making.made); err != nil {
		return err
	}
	return r.planOnSnapshots(ctx)
}

// planOnSnapshots plans the volumes of the snapshots that were made.
func (r *run) planOnSnapshots(ctx context.Context) error {
	m, err := r.making.made.Manifest(r.backup.Manifest)
	if err != nil {
		return err
	}
	r.backup = r.backup.with(m)
	plan, err := r.planVolumes(ctx)
	if err != nil {
		return err
	}
	if plan, _, err = r.nameVolumes(plan); err != nil {
		return err
	}
	_, err = r.checkSnapshots(ctx, plan)
	return err
}

// adoptCompleted plans the volumes in a resumed run. Once the snapshots are being deleted, they need not be there.
func (r *run) adoptCompleted(ctx context.Context, _ *phase.Scope) error {
	err := r.planOnSnapshots(ctx)
	if r.earlier.snapshotsGo && failure.Is(err, failure.Corrupt) {
		return nil
	}
	return err
}

// undoSnapshots deletes the run's snapshots: known ones and those found by tag. If a request was unanswered it looks
// again, until EC2 cannot hide its snapshot any more. All are tried, whatever fails.
func (r *run) undoSnapshots(ctx context.Context, s *phase.Scope) error {
	if r.keepsOnFailure() {
		s.Note("%s", r.making.keptSnapshots())
		return nil
	}
	return r.making.snapshots.Delete(ctx, s, r.making.made, len(r.backup.Snapshots))
}

// deleteSnapshots deletes the snapshots, whose volumes do not need them any more. A failure does not fail a restore
// whose cluster serves: it is reported, and gc deletes them.
func (r *run) deleteSnapshots(ctx context.Context, s *phase.Scope) error {
	if err := r.making.snapshots.Delete(ctx, s, r.making.made, 0); err != nil {
		if r.runner.Fence().Loss() != nil {
			return err
		}
		r.leave("the archive's snapshots are left, and billed by AWS: %v; %s", err, failure.HintOf(err))
	}
	return nil
}

// keptSnapshots describes the snapshots when the lock is lost.
func (m *making) keptSnapshots() string {
	if m.snapshots == nil {
		return ""
	}
	return m.snapshots.Kept()
}

// beforeVolumes is the step after which volumes are made.
func (r *run) beforeVolumes() string {
	if r.making.snapshots == nil {
		return journal.StepLock
	}
	return stepAwaitSnapshots
}

// snapshotsEarlier is what earlier processes did about the snapshots.
func (e *earlier) snapshots() fromarchive.Earlier {
	return fromarchive.Earlier{Epoch: e.SnapshotsEpoch, Restarts: e.Restarts, Put: e.Put}
}
