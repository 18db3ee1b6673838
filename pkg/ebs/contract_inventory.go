package ebs

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// SnapshotLock keeps a snapshot from being deleted.
type SnapshotLock struct {
	Snapshot cluster.SnapshotID
	// Mode is governance, compliance, compliance-cooloff or expired.
	Mode      string
	ExpiresAt time.Time // zero where EC2 does not know yet: the snapshot is pending
}

// Holds reports whether the snapshot cannot be deleted now.
func (l SnapshotLock) Holds() bool { return l.Mode != "expired" }

// Inventory is everything made by tisnap that still exists in the account, and its locks: the input of gc.
type Inventory interface {
	// AllSnapshots returns all own snapshots with the tag TagRun, of any run.
	AllSnapshots(ctx context.Context) ([]Snapshot, error)
	// AllVolumes returns all volumes with the tag TagRun, of any run.
	AllVolumes(ctx context.Context) ([]Volume, error)
	// SnapshotLocks returns the locks of these snapshots; one that was never locked is left out.
	SnapshotLocks(ctx context.Context, ids []cluster.SnapshotID) ([]SnapshotLock, error)
}
