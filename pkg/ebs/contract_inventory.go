package ebs

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Inventory is everything made by tisnap that still exists in the account, and its locks: the input of gc.
type Inventory interface {
	// AllSnapshots returns all own snapshots with the tag TagRun, of any run.
	AllSnapshots(ctx context.Context) ([]Snapshot, error)
	// AllVolumes returns all volumes with the tag TagRun, of any run.
	AllVolumes(ctx context.Context) ([]Volume, error)
	// SnapshotLocks returns the locks of these snapshots; one that was never locked is left out.
	SnapshotLocks(ctx context.Context, ids []cluster.SnapshotID) ([]SnapshotLock, error)
}
