package ebs

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// The durations in which EC2 is asked to complete a copy: a multiple of CopyWithinStep, up to MaxCopyWithin.
const (
	CopyWithinStep = 15 * time.Minute
	MaxCopyWithin  = 48 * time.Hour
)

// CopyRequest asks for a copy of a snapshot in the client's own region and account.
type CopyRequest struct {
	Snapshot cluster.SnapshotID
	// Region is that of the snapshot, which is the account's own or shared with it.
	Region string
	// KMSKey encrypts the copy. "" leaves it unencrypted as the snapshot is; the copy of an encrypted one is then
	// encrypted with the account's default key for EBS in the client's region: under OwnKeyAlias it is never shared.
	KMSKey string
	// Within asks EC2 to complete the copy in this time, which is billed by the GiB; 0 does not. EC2 takes longer if
	// the throughput between the regions is in use.
	Within time.Duration
	// Tags are set on the copy, and TagCopiedFrom in addition. No tag of the snapshot is copied.
	Tags Tags
}

// Copies copies snapshots into the client's region and account.
type Copies interface {
	// CopySnapshot returns the id of the copy when EC2 has accepted it; data is moved for hours after that, and keys
	// are checked only then: a copy that cannot be made turns to SnapshotError, with the reason in Snapshot.Message.
	// EC2 has no idempotency token for this call: after an error for which MayHaveHappened is true, look for the copy
	// with FindSnapshots, by the tags of the request and TagCopiedFrom, before retrying. EC2 makes 20 copies at a time
	// into a region, and waits with a copy of a volume while another one of that volume is pending. Kinds: Denied,
	// Limited, NotFound (the snapshot does not exist, or is not shared), Unready (it is not completed), Usage, Unknown.
	CopySnapshot(ctx context.Context, req CopyRequest) (cluster.SnapshotID, error)
	// ProbeCopy asks EC2 by DryRun whether CopySnapshot would be accepted. It does not check keys.
	ProbeCopy(ctx context.Context, req CopyRequest) error
}

// Sharing lets other accounts read snapshots of this one: describe them by id, copy them, and create volumes from them.
// For an encrypted snapshot they need the permission to use its key, too. Tags are not shared.
type Sharing interface {
	// ShareSnapshot shares a snapshot with accounts, of 12 digits each; sharing it again succeeds. A snapshot under the
	// account's default key for EBS cannot be shared: Conflict. Kinds: Conflict, Denied, Limited, NotFound, Usage,
	// Unknown.
	ShareSnapshot(ctx context.Context, id cluster.SnapshotID, accounts []string) error
	// UnshareSnapshot ends that. A snapshot that is not shared with them, or does not exist, succeeds.
	UnshareSnapshot(ctx context.Context, id cluster.SnapshotID, accounts []string) error
	// SharedWith returns the accounts that a snapshot is shared with.
	SharedWith(ctx context.Context, id cluster.SnapshotID) ([]string, error)
}
