package ebs

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// VolumeRequest describes a volume to create from a snapshot.
type VolumeRequest struct {
	// Token makes the call idempotent: the same token and parameters give the same volume. At most 64 ASCII characters.
	Token    string
	Snapshot cluster.SnapshotID
	Zone     cluster.Zone
	Spec     cluster.VolumeSpec
	// Encrypted asks for encryption with KMSKey (or the account's default key); false keeps the snapshot's.
	Encrypted bool
	KMSKey    string
	// InitializationMiB asks EC2 to fill the volume at this rate, in MiB/s (100 to 300), which is billed by AWS; 0 does
	// not.
	InitializationMiB int64
	Tags              Tags
}

// Volumes makes and reads volumes. The same rules hold as for Snapshots.
type Volumes interface {
	// CreateVolume requests a volume and returns while it is still creating. Repeating the call with the same token
	// returns the same volume. A token whose volume is gone (deleted, or vanished while creating) is burned for 12
	// hours: TokenBurned recognises that error, which is returned only after a check by tag that no volume of this
	// request exists; retry with a new token (Token with the next generation).
	CreateVolume(ctx context.Context, req VolumeRequest) (Volume, error)
	// DescribeVolumes returns the volumes with these ids. One that does not exist is left out.
	DescribeVolumes(ctx context.Context, ids []cluster.VolumeID) ([]Volume, error)
	// FindVolumes returns all volumes that carry every one of these tags.
	FindVolumes(ctx context.Context, tags Tags) ([]Volume, error)
	// DeleteVolume deletes a volume that is not attached; deleting one that does not exist succeeds.
	// An attached one is a Conflict and stays.
	DeleteVolume(ctx context.Context, id cluster.VolumeID) error
}
