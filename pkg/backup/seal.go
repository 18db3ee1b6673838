package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// seal checks once more that every snapshot of the manifest exists and is completed, and seals the manifest
// as it is stored. From then on the backup can be restored and the snapshots stay.
func (r *run) seal(ctx context.Context, _ *phase.Scope) error {
	m := r.result.Manifest
	if err := r.proof.check("seal backup", r.opts.Backup, m.BackupTS); err != nil {
		return err
	}
	if err := r.checkCompleted(ctx, m); err != nil {
		return err
	}
	// From here on a cancelled run must not leave it open whether the seal was written.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sealDeadline)
	defer cancel()
	r.sealing = true
	if err := r.catalog.Seal(ctx, m.ID, time.Now().UTC(), r.result.DataBytes); err != nil {
		return err
	}
	r.result.Sealed = true
	r.Remains.Clear(remainsSnapshots)
	return nil
}

// checkCompleted fails unless EC2 shows every snapshot of the manifest as completed. An answer of EC2 may be older than the
// one before it, so one that shows less does not throw hours of work away: it counts only if it stays so for as long as
// EC2 may hide what exists.
func (r *run) checkCompleted(ctx context.Context, m *manifest.Manifest) error {
	for end := time.Now().Add(r.opts.Visibility); ; {
		found, err := r.EBS.DescribeSnapshots(ctx, m.SnapshotIDs())
		if err != nil {
			return failure.Annotate(err, "describe snapshots", "")
		}
		completed := 0
		for _, snap := range found {
			switch snap.State.Outcome() {
			case ebs.SnapshotDone:
				completed++
			case ebs.SnapshotFailed:
				return failure.New(failure.Corrupt, "seal backup", string(m.ID), "the state of snapshot %s is %q", snap.ID, snap.State)
			case ebs.SnapshotWaits, ebs.SnapshotStrange:
			}
		}
		if completed == len(m.Snapshots) {
			return nil
		}
		if !time.Now().Before(end) {
			return failure.New(failure.Corrupt, "seal backup", string(m.ID), "%d of %d snapshots exist and are completed", completed, len(m.Snapshots)).
				WithHint("see who called DeleteSnapshot in CloudTrail, and run the backup again")
		}
		if err := wait.For(ctx, pollInterval); err != nil {
			return failure.Annotate(err, "describe snapshots", "")
		}
	}
}

// sealDeadline bounds the one write that makes a backup restorable.
const sealDeadline = time.Minute

// bury makes certain that the backup is not sealed and never will be, before anything that its manifest names is
// deleted. An answer of the seal's PUT may be lost, and the PUT itself may still be on its way: with a tombstone in
// its place it is refused when it arrives. A backup that is sealed is kept, and so is one in doubt.
func (r *run) bury(ctx context.Context) error {
	if !r.sealing {
		return nil // nobody else seals it
	}
	err := r.catalog.Bury(ctx, r.opts.Backup, r.opts.Run, "its run failed", true)
	if failure.Is(err, failure.Conflict) {
		return failure.New(failure.Partial, "undo backup", string(r.opts.Backup), "it was sealed before the run failed, so it is kept").
			WithHint("check it with: tisnap describe %s", r.opts.Backup)
	}
	return failure.Annotate(err, "bury backup before deleting", string(r.opts.Backup))
}
