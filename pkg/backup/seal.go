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

// seal checks once more that all of the manifest's snapshots exist and are completed, and seals the stored manifest.
// From then on the backup can be restored and its snapshots are kept.
func (w *recorder) seal(ctx context.Context, p *proof, dataBytes int64) error {
	m := w.manifest
	if err := p.check("seal backup", w.opts.Backup, m.BackupTS); err != nil {
		return err
	}
	if err := w.checkCompleted(ctx, m); err != nil {
		return err
	}
	// From here on a cancelled run must not leave it unclear whether the seal was written.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sealDeadline)
	defer cancel()
	w.sealing = true
	err := w.catalog.Seal(ctx, m.ID, time.Now().UTC(), dataBytes)
	w.sealed = err == nil
	return err
}

// adoptSeal notes that the backup is already sealed.
func (w *recorder) adoptSeal(context.Context, *phase.Scope) error {
	w.sealed = true
	return nil
}

// maySeal notes whether an earlier process has requested a seal, which may exist, or still arrive.
func (w *recorder) maySeal(requested bool) { w.sealing = requested }

// checkCompleted fails unless EC2 shows all of the manifest's snapshots as completed. EC2's answers may be older than
// earlier ones, so one that shows less only counts if it persists for as long as EC2 may hide what exists: hours of
// work depend on it.
func (w *recorder) checkCompleted(ctx context.Context, m *manifest.Manifest) error {
	end := time.Now().Add(w.opts.Visibility)
	err := wait.Until(ctx, wait.Every(pollInterval), func() (bool, error) {
		asked := time.Now()
		found, err := w.ebs.DescribeSnapshots(ctx, m.SnapshotIDs())
		if err != nil {
			return true, failure.Annotate(err, "describe snapshots", "")
		}
		completed := 0
		for _, snap := range found {
			switch snap.State.Outcome() {
			case ebs.SnapshotDone:
				completed++
			case ebs.SnapshotFailed:
				return true, failure.New(failure.Corrupt, "seal backup", string(m.ID), "the state of snapshot %s is %q",
					snap.ID, snap.State)
			case ebs.SnapshotWaits, ebs.SnapshotStrange:
			}
		}
		if completed == len(m.Snapshots) {
			return true, nil
		}
		if !asked.Before(end) {
			return true, failure.New(failure.Corrupt, "seal backup", string(m.ID),
				"%d of %d snapshots exist and are completed", completed, len(m.Snapshots)).
				WithHint("see who called DeleteSnapshot in CloudTrail, and run the backup again")
		}
		return false, nil
	})
	if ended := wait.EndOf(err); ended != nil {
		return failure.Annotate(ended.Cause, "describe snapshots", "")
	}
	return err
}

// sealDeadline bounds the write that makes a backup restorable.
const sealDeadline = time.Minute

// bury ensures that the backup is not sealed and never will be, before anything named by its manifest is deleted. The
// answer of the seal's PUT may be lost, or the PUT may still be in flight: with a tombstone in its place it is refused.
// A sealed backup is kept, and so is one in doubt.
func (w *recorder) bury(ctx context.Context) error {
	if !w.sealing {
		return nil // no other process seals it
	}
	err := w.catalog.Bury(ctx, w.opts.Backup, w.opts.Run, "its run failed", true)
	if failure.Is(err, failure.Conflict) {
		return failure.New(failure.Partial, "undo backup", string(w.opts.Backup),
			"it was sealed before the run failed, so it is kept").
			WithHint("check it with: tisnap describe %s", w.opts.Backup)
	}
	return failure.Annotate(err, "bury backup before deleting", string(w.opts.Backup))
}
