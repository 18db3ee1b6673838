package ebs

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Action is an IAM action that a dry run can probe.
type Action string

// The actions that change something.
const (
	ActionCreateSnapshots Action = "ec2:CreateSnapshots"
	ActionDeleteSnapshot  Action = "ec2:DeleteSnapshot"
	ActionCreateVolume    Action = "ec2:CreateVolume"
	ActionDeleteVolume    Action = "ec2:DeleteVolume"
	ActionModifyVolume    Action = "ec2:ModifyVolume"

	ActionEnableFastRestore  Action = "ec2:EnableFastSnapshotRestores"
	ActionDisableFastRestore Action = "ec2:DisableFastSnapshotRestores"
)

// AccountQuotas are the account's limits in the region, as Service Quotas reports them. A limit that it does
// not report is absent, or 0: it is unknown, and nothing may be refused for it.
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

// Account is what preflight asks about the account and region: permissions, zones, limits and what is used of
// them. Nothing here changes anything.
type Account interface {
	// Probe asks EC2 by DryRun whether the action would be allowed on the target (an instance, snapshot or
	// volume id). A refusal is Denied and names the action.
	Probe(ctx context.Context, action Action, target string, zone cluster.Zone) error
	// Zones lists the region's available zones.
	Zones(ctx context.Context) ([]cluster.Zone, error)
	// PendingSnapshots counts the account's snapshots that are still pending.
	PendingSnapshots(ctx context.Context) (int, error)
	// Region is the region that calls go to.
	Region() string
	// ZoneIDs maps each available zone of the region to its id: us-west-2a is another place in each account,
	// usw2-az1 the same in all.
	ZoneIDs(ctx context.Context) (map[cluster.Zone]string, error)
	// SnapshotsInProgress counts the own snapshots of each of these volumes that are pending or in error, which
	// EC2 counts alike; a volume without any is left out. Those that were deleted while pending count at EC2 and
	// cannot be seen here. EC2 allows 5 at a time.
	SnapshotsInProgress(ctx context.Context, ids []cluster.VolumeID) (map[cluster.VolumeID]int, error)
	// NewestSnapshots is when the newest own snapshot of each of these volumes was started, by EC2's clock, of those
	// started since; a volume without any is left out.
	NewestSnapshots(
		ctx context.Context, ids []cluster.VolumeID, since time.Time,
	) (map[cluster.VolumeID]time.Time, error)
	// Quotas asks Service Quotas. Kinds: Denied (servicequotas:ListServiceQuotas), Limited, Unknown.
	Quotas(ctx context.Context) (AccountQuotas, error)
	// Usage adds up all volumes of the account in the region, ours and others'.
	Usage(ctx context.Context) (Usage, error)
	// MaxIOPS asks EC2, by a dry run of CreateVolume with an absurd number, for the maximum IOPS of one volume
	// of this type in this zone. 0 means that EC2 did not say.
	MaxIOPS(ctx context.Context, volumeType string, zone cluster.Zone) (int64, error)
}
