package ebs

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// ModificationState is EC2's state of a volume's modification.
type ModificationState string

// The documented states.
const (
	ModificationModifying  ModificationState = "modifying"  // the old performance still holds
	ModificationOptimizing ModificationState = "optimizing" // between the old performance and the new
	ModificationCompleted  ModificationState = "completed"
	ModificationFailed     ModificationState = "failed"
)

// Modification is the newest modification of a volume.
type Modification struct {
	Volume    cluster.VolumeID
	State     ModificationState
	Message   string // EC2's reason for a failed one
	Progress  int    // percent, 0 to 100
	From, To  cluster.VolumeSpec
	StartedAt time.Time
	EndedAt   time.Time // zero until it is over
}

// Accepted reports whether EC2 has accepted the new parameters: from then on the volume is billed by them and needs
// nothing more from us.
func (m Modification) Accepted() bool {
	return m.State == ModificationOptimizing || m.State == ModificationCompleted
}

// FastRestoreState is EC2's state of fast snapshot restore for one snapshot in one zone.
type FastRestoreState string

// The documented states.
const (
	FastRestoreEnabling   FastRestoreState = "enabling"
	FastRestoreOptimizing FastRestoreState = "optimizing"
	FastRestoreEnabled    FastRestoreState = "enabled"
	FastRestoreDisabling  FastRestoreState = "disabling"
	FastRestoreDisabled   FastRestoreState = "disabled"
)

// FastRestore is fast snapshot restore for one snapshot in one zone. It is billed by the hour until disabled.
type FastRestore struct {
	Snapshot cluster.SnapshotID
	Zone     cluster.Zone
	State    FastRestoreState
	Reason   string // EC2's, of the last change of state
	// EnabledAt is when it became enabled; zero before. Credits grow from then on.
	EnabledAt time.Time
}

// Initialization is how far a volume from a snapshot has been filled with its data.
type Initialization struct {
	Volume cluster.VolumeID
	// Known is false if EC2 does not report initialization (yet): Progress is then 0.
	Known bool
	// Progress is in percent, up to 5 minutes old.
	Progress int
	// Remaining is EC2's own estimate; zero without one.
	Remaining time.Duration
	// Rated is true for a volume that was asked for with an initialization rate.
	Rated bool
	// Status is EC2's of the volume: ok, warning, impaired, insufficient-data.
	Status string
}

// Done reports whether all data is on the volume.
func (i Initialization) Done() bool { return i.Known && i.Progress >= 100 }

// The initialization rates that EC2 takes, in MiB/s for a volume, and the sum that it has for the volumes
// that are being initialized at one time in a region.
const (
	MinInitializationRate = 100
	MaxInitializationRate = 300
	InitializationRateSum = 5000
)

// Performance changes the speed of volumes: type and limits, fast snapshot restore and initialization.
type Performance interface {
	// ModifyVolume requests another type, size, IOPS or throughput and returns while EC2 is working on it. Requesting
	// what the volume already has, or is already being changed to, succeeds. EC2 allows four modifications of a volume
	// in 24 hours: beyond that the error is Limited, with a hint. A size can only grow. Kinds: Denied, Limited,
	// NotFound, Unready, Usage, Unknown.
	ModifyVolume(ctx context.Context, id cluster.VolumeID, spec cluster.VolumeSpec) (Modification, error)
	// Modifications returns the newest modification of each of these volumes; one that was never modified
	// is left out.
	Modifications(ctx context.Context, ids []cluster.VolumeID) ([]Modification, error)
	// EnableFastRestore requests fast snapshot restore for every snapshot in every zone and returns EC2's answer; it
	// then takes 60 minutes per TiB. It returns refused pairs as one joined error together with the accepted ones,
	// which the caller has to disable. Enabling an enabled pair succeeds.
	EnableFastRestore(ctx context.Context, ids []cluster.SnapshotID, zones []cluster.Zone) ([]FastRestore, error)
	// DisableFastRestore disables it, and ends its costs, for every snapshot in every zone. Disabling a pair that is
	// not enabled, or a missing snapshot, succeeds. Pairs that stay enabled are returned as one joined error.
	DisableFastRestore(ctx context.Context, ids []cluster.SnapshotID, zones []cluster.Zone) error
	// FastRestores returns the state of each pair of these snapshots that EC2 knows; no ids means all of the
	// account that are not disabled.
	FastRestores(ctx context.Context, ids []cluster.SnapshotID) ([]FastRestore, error)
	// Initializations returns one entry for each of these volumes that exists.
	Initializations(ctx context.Context, ids []cluster.VolumeID) ([]Initialization, error)
}
