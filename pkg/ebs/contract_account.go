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
	ActionCopySnapshot    Action = "ec2:CopySnapshot"
	ActionLockSnapshot    Action = "ec2:LockSnapshot"

	ActionEnableFastRestore  Action = "ec2:EnableFastSnapshotRestores"
	ActionDisableFastRestore Action = "ec2:DisableFastSnapshotRestores"
)

// AccountQuotas are the account's limits in the region, as reported by Service Quotas. An unreported limit is absent,
// or 0: it is unknown, and nothing may be refused because of it.
type AccountQuotas struct {
	StorageGiB       map[string]int64 // by volume type
	IOPS             map[string]int64 // by volume type; io1 and io2
	PendingSnapshots int64            // in the account
	Snapshots        int64            // in the region
	FastRestores     int64            // snapshots that may be enabled at a time in the region
	CopyRate         int64            // bytes per second of all copies with a duration from one region into this one
}

// Usage is the account's current usage of the quotas.
type Usage struct {
	StorageGiB map[string]int64 // by volume type
	IOPS       map[string]int64 // by volume type
}

// Account is what preflight reads about the account and region: permissions, zones, limits and their usage. It is
// read-only.
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
	// SnapshotsInProgress counts the account's own snapshots of each of these volumes that are pending or in error,
	// which EC2 counts alike; a volume without any is omitted. Snapshots deleted while pending count at EC2 too, but
	// are not visible here. EC2 allows 5 at a time.
	SnapshotsInProgress(ctx context.Context, ids []cluster.VolumeID) (map[cluster.VolumeID]int, error)
	// NewestSnapshots returns when each of these volumes' newest own snapshot started, by EC2's clock, among those
	// started since the given time; a volume without any is omitted.
	NewestSnapshots(
		ctx context.Context, ids []cluster.VolumeID, since time.Time,
	) (map[cluster.VolumeID]time.Time, error)
	// Quotas asks Service Quotas. Kinds: Denied (servicequotas:ListServiceQuotas), Limited, Unknown.
	Quotas(ctx context.Context) (AccountQuotas, error)
	// Usage adds up all volumes of the account in the region, ours and others'.
	Usage(ctx context.Context) (Usage, error)
	// MaxIOPS asks EC2, with a dry run of CreateVolume with an absurd number, for the maximum IOPS of one volume of
	// this type in this zone. 0 means unknown.
	MaxIOPS(ctx context.Context, volumeType string, zone cluster.Zone) (int64, error)
}
