package ebs

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// AccountQuotas are the account's limits in the region, as Service Quotas tells them. A limit that it does
// not tell is absent, or 0: nobody knows then, and nothing may be refused for it.
type AccountQuotas struct {
	StorageGiB       map[string]int64 // by volume type
	IOPS             map[string]int64 // by volume type; io1 and io2
	PendingSnapshots int64            // in the account
	Snapshots        int64            // in the region
	FastRestores     int64            // snapshots that may be enabled at a time in the region
}

// Usage is what the account has already of what quotas limit.
type Usage struct {
	StorageGiB map[string]int64 // by volume type
	IOPS       map[string]int64 // by volume type
}

// InProgress counts what EC2 limits for each volume: 5 snapshots at a time.
type InProgress interface {
	// SnapshotsInProgress counts the own snapshots of each of these volumes that are pending or in error, which
	// EC2 counts alike; a volume without any is left out. Those that were deleted while pending count at EC2 and
	// cannot be seen here.
	SnapshotsInProgress(ctx context.Context, ids []cluster.VolumeID) (map[cluster.VolumeID]int, error)
}

// Quotas reads limits and what is used of them. Nothing here changes anything.
type Quotas interface {
	// Quotas asks Service Quotas. Kinds: Denied (servicequotas:ListServiceQuotas), Limited, Unknown.
	Quotas(ctx context.Context) (AccountQuotas, error)
	// Usage adds up all volumes of the account in the region, ours and others'.
	Usage(ctx context.Context) (Usage, error)
	// MostIOPS asks EC2, by a dry run of CreateVolume with an absurd number, for the most IOPS of one volume
	// of this type in this zone. 0 means that EC2 did not say.
	MostIOPS(ctx context.Context, volumeType string, zone cluster.Zone) (int64, error)
}

// ZoneIDs tells zones of different accounts apart: us-west-2a is another place in each account, usw2-az1
// the same in all.
type ZoneIDs interface {
	// ZoneIDs maps each available zone of the region to its id.
	ZoneIDs(ctx context.Context) (map[cluster.Zone]string, error)
}

// SnapshotLock keeps a snapshot from being deleted.
type SnapshotLock struct {
	Snapshot cluster.SnapshotID
	// Mode is governance, compliance, compliance-cooloff or expired.
	Mode      string
	ExpiresAt time.Time // zero where EC2 does not know yet: the snapshot is pending
}

// Holds reports whether the snapshot cannot be deleted now.
func (l SnapshotLock) Holds() bool { return l.Mode != "expired" }

// Locks tells which snapshots are locked.
type Locks interface {
	// SnapshotLocks returns the locks of these snapshots; one that was never locked is left out.
	SnapshotLocks(ctx context.Context, ids []cluster.SnapshotID) ([]SnapshotLock, error)
}

// Inventory is everything that tisnap ever made in the account and that is there still: the input of gc.
type Inventory interface {
	// AllSnapshots returns all own snapshots that carry the tag TagRun, of whatever run.
	AllSnapshots(ctx context.Context) ([]Snapshot, error)
	// AllVolumes returns all volumes that carry the tag TagRun, of whatever run.
	AllVolumes(ctx context.Context) ([]Volume, error)
}
