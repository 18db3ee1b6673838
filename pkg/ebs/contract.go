package ebs

import (
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Tags are set on every snapshot and volume in the call that creates it.
type Tags map[string]string

// The tag keys. The set is fixed and small, so that rotations never reach EC2's limit of 50.
const (
	TagRun     = "tisnap.io/run"     // RunID of the run that made it
	TagBackup  = "tisnap.io/backup"  // BackupID that it belongs to
	TagCluster = "tisnap.io/cluster" // namespace/name: the source of a snapshot, the target of a volume
	TagStorage = "tisnap.io/storage" // id of the storage with the run's journal, which a copy of the storage has too
	TagStore   = "tisnap.io/store"   // StoreID
	TagAttempt = "tisnap.io/attempt" // of a snapshot: number of the hold that it was cut in, from 1
	// TagEpoch is the epoch of the run's lock when a process of the run requested the resource, or took it over. An
	// undo leaves resources with a higher epoch than its own.
	TagEpoch = "tisnap.io/epoch"
	// TagVolumeOf + role names the volume of that role: CreateSnapshots gives all snapshots of one call
	// the same tags, so each carries the whole map of its store.
	TagVolumeOf = "tisnap.io/volume-of/"
	TagRole     = "tisnap.io/role"     // of a restored volume
	TagArchive  = "tisnap.io/archive"  // of a snapshot made from an archive: its id; without TagRun it is the user's
	TagSnapshot = "tisnap.io/snapshot" // that a restored volume was made from
	// TagDrill names the drill whose restore made a volume, and TagDrillExpires when anyone may delete it.
	TagDrill        = "tisnap.io/drill"
	TagDrillExpires = "tisnap.io/drill-expires"
	// TagCopiedFrom names the snapshot that a copy was made of, in its own region.
	TagCopiedFrom = "tisnap.io/copied-from"
	// TagCopiedOver names the regions and accounts that a copy of a copy came through, the last first: REGION/ACCOUNT.
	TagCopiedOver = "tisnap.io/copied-over"
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
	Volume    cluster.VolumeID // an arbitrary one for a copy
	State     SnapshotState
	Message   string // EC2's reason for an error state
	Progress  int    // percent, 0 to 100
	StartedAt time.Time
	// CompletedAt is zero until the snapshot is completed, or if the endpoint does not report it.
	CompletedAt time.Time
	SizeGiB     int64 // of the volume
	FullBytes   int64 // data in the snapshot; 0 if not reported
	Encrypted   bool
	KMSKey      string
	// Archived is true while the snapshot is in the archive tier, from which no volume can be created.
	Archived bool
	// RestoredUntil is when a snapshot that was brought back for some days goes to the archive tier again; else zero.
	RestoredUntil time.Time
	Outpost       string // ARN of its Outpost; "" if it is in its Region
	Owner         string // the account that it belongs to
	Tags          Tags   // none of another account's snapshot
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
	Outpost   string // ARN of the Outpost that it is on; "" for one in a zone
}
