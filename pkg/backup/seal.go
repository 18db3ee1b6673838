package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// seal checks once more that every snapshot of the manifest exists and is completed, and seals the manifest
// as it is stored. From then on the backup can be restored and the snapshots stay.
func (r *run) seal(ctx context.Context, _ *phase.Scope) error {
	m := r.result.Manifest
	found, err := r.EBS.DescribeSnapshots(ctx, m.SnapshotIDs())
	if err != nil {
		return failure.Annotate(err, "describe snapshots", "")
	}
	completed := 0
	for _, snap := range found {
		if snap.State == ebs.SnapshotCompleted {
			completed++
		}
	}
	if completed != len(m.Snapshots) {
		return failure.New(failure.Corrupt, "seal backup", string(m.ID), "%d of %d snapshots exist and are completed", completed, len(m.Snapshots))
	}
	// From here on a cancelled run must not leave it open whether the seal was written.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sealDeadline)
	defer cancel()
	if err := r.catalog.Seal(ctx, m.ID, time.Now().UTC(), r.result.DataBytes); err != nil {
		return err
	}
	r.result.Sealed = true
	return nil
}

// sealDeadline bounds the one write that makes a backup restorable.
const sealDeadline = time.Minute

// unsealed fails unless it is certain that the backup has no seal: what a sealed manifest names is never
// deleted, and in doubt it is kept.
func (r *run) unsealed(ctx context.Context) error {
	seal, _, err := r.Store.Get(ctx, manifest.SealKey(r.opts.Backup))
	switch {
	case failure.Is(err, failure.NotFound), err == nil && manifest.DecodeTombstone(seal) != nil:
		return nil
	case err != nil:
		return failure.Annotate(err, "check for a seal before deleting", string(r.opts.Backup))
	}
	return failure.New(failure.Partial, "undo backup", string(r.opts.Backup), "it was sealed before the run failed, so it is kept").
		WithHint("check it with: tisnap describe %s", r.opts.Backup)
}
