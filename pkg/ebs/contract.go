package ebs

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Tags is what tisnap writes on every snapshot and volume in the call that makes it.
type Tags map[string]string

// The tag keys. The set is fixed and small, so that rotations never reach EC2's limit of 50.
const (
	TagRun     = "tisnap.io/run"     // RunID of the run that made it
	TagBackup  = "tisnap.io/backup"  // BackupID that it belongs to
	TagCluster = "tisnap.io/cluster" // namespace/name: the source of a snapshot, the target of a volume
	TagStore   = "tisnap.io/store"   // StoreID
	// TagVolumeOf + role names the volume of that role: CreateSnapshots gives all snapshots of one call
	// the same tags, so each carries the whole map of its store.
	TagVolumeOf = "tisnap.io/volume-of/"
	TagRole     = "tisnap.io/role"     // of a restored volume
	TagSnapshot = "tisnap.io/snapshot" // that a restored volume was made from
)

// SnapshotState is EC2's state of a snapshot.
type SnapshotState string

// The documented states. Anything else that EC2 answers is passed on as it is.
const (
	SnapshotPending     SnapshotState = "pending"
	SnapshotCompleted   SnapshotState = "completed"
	SnapshotError       SnapshotState = "error"
	SnapshotRecoverable SnapshotState = "recoverable"
	SnapshotRecovering  SnapshotState = "recovering"
)

// Snapshot is an EBS snapshot as EC2 describes it.
type Snapshot struct {
	ID        cluster.SnapshotID
	Volume    cluster.VolumeID
	State     SnapshotState
	Message   string // EC2's reason for an error state
	Progress  int    // percent, 0 to 100
	StartedAt time.Time
	// CompletedAt is zero until the snapshot is completed, and where the endpoint does not tell.
	CompletedAt time.Time
	SizeGiB     int64 // of the volume
	FullBytes   int64 // data in the snapshot; 0 where the endpoint does not tell
	Encrypted   bool
	KMSKey      string
	Tags        Tags
}

// VolumeState is EC2's state of a volume.
type VolumeState string

// The documented states.
const (
	VolumeCreating  VolumeState = "creating"
	VolumeAvailable VolumeState = "available"
	VolumeInUse     VolumeState = "in-use"
	VolumeDeleting  VolumeState = "deleting"
	VolumeDeleted   VolumeState = "deleted"
	VolumeError     VolumeState = "error"
)

// Volume is an EBS volume as EC2 describes it.
type Volume struct {
	ID        cluster.VolumeID
	State     VolumeState
	Zone      cluster.Zone
	Spec      cluster.VolumeSpec
	Snapshot  cluster.SnapshotID // that it was made from, or ""
	Instance  cluster.InstanceID // that it is attached to, or ""
	Encrypted bool
	KMSKey    string
	CreatedAt time.Time
	Tags      Tags
}

// CutRequest asks for one point-in-time set of an instance's volumes.
type CutRequest struct {
	Instance cluster.InstanceID
	// Volumes are exactly those wanted. Every other volume that is attached when the call is made,
	// the boot volume included, is excluded by the call.
	Volumes []cluster.VolumeID
	Tags    Tags
	// Attached is a look at all instances of the cut that is just over (Instances.Attachments): with it, the
	// first try asks EC2 nothing more. nil makes Cut look itself. Later tries always look again.
	Attached Attachments `json:"-"`
}

// VolumeRequest asks for a volume made from a snapshot.
type VolumeRequest struct {
	// Token makes the call idempotent: the same token and parameters give the same volume. At most 64 ASCII characters.
	Token    string
	Snapshot cluster.SnapshotID
	Zone     cluster.Zone
	Spec     cluster.VolumeSpec
	// Encrypted asks for encryption with KMSKey (or the account's default key); false keeps the snapshot's.
	Encrypted bool
	KMSKey    string
	// InitializationMiB asks EC2 to fill the volume at this rate, in MiB/s (100 to 300), for money; 0 does not.
	InitializationMiB int64
	Tags              Tags
}

// Snapshots is what a backup needs. All methods are safe for concurrent use. Describing methods accept any
// number of ids and page and batch by themselves; results come in no particular order.
type Snapshots interface {
	// Cut takes a crash-consistent multi-volume set by one CreateSnapshots call and returns when EC2 has
	// accepted it: the data are then fixed, though copying goes on for hours. EC2 has no idempotency token
	// for this call; after an error of kind Unknown or Limited the set may exist: look it up by tag
	// (FindSnapshots) before asking again. Kinds: Denied, Limited, NotFound, Usage, Unknown.
	Cut(ctx context.Context, req CutRequest) ([]Snapshot, error)
	// DescribeSnapshots returns the snapshots with these ids. One that does not exist is left out.
	DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]Snapshot, error)
	// FindSnapshots returns all own snapshots that carry every one of these tags. A snapshot younger than
	// a minute may not be visible yet.
	FindSnapshots(ctx context.Context, tags Tags) ([]Snapshot, error)
	// DeleteSnapshot deletes one snapshot; deleting one that does not exist succeeds.
	DeleteSnapshot(ctx context.Context, id cluster.SnapshotID) error
}

// Volumes is what a restore needs. The same rules hold as for Snapshots.
type Volumes interface {
	// CreateVolume asks for a volume and returns while it is still creating. Asking again with the same
	// token returns the same volume. A token whose volume is gone (deleted, or vanished while it was made) is
	// burned for 12 hours: TokenBurned tells such an error, after it was made sure by tag that no volume of
	// this request lives; ask again with a new token (Token with the next generation).
	CreateVolume(ctx context.Context, req VolumeRequest) (Volume, error)
	// DescribeVolumes returns the volumes with these ids. One that does not exist is left out.
	DescribeVolumes(ctx context.Context, ids []cluster.VolumeID) ([]Volume, error)
	// FindVolumes returns all volumes that carry every one of these tags.
	FindVolumes(ctx context.Context, tags Tags) ([]Volume, error)
	// DeleteVolume deletes a volume that is not attached; deleting one that does not exist succeeds.
	// An attached one is a Conflict and stays.
	DeleteVolume(ctx context.Context, id cluster.VolumeID) error
}

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

// Account is what preflight asks about the account and region. Nothing here changes anything.
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
}
