package ebs

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Attachment is one volume of an instance.
type Attachment struct {
	Volume cluster.VolumeID
	Boot   bool
	// State is EC2's: attaching, attached, detaching, busy.
	State string
}

// Attachments is what was attached to instances at one time. An absent instance was not requested; one without volumes
// has an empty list.
type Attachments map[cluster.InstanceID][]Attachment

// CutRequest asks for one point-in-time set of an instance's volumes.
type CutRequest struct {
	Instance cluster.InstanceID
	// Volumes are exactly the wanted ones. The call excludes every other attached volume, including the boot volume.
	Volumes []cluster.VolumeID
	Tags    Tags
	// Attached is what was attached to all instances of the cut a moment ago (Attachments), which spares the first
	// attempt a query. nil makes Cut describe them itself. Later attempts always describe them again.
	Attached Attachments `json:"-"`
}

// Snapshots makes and reads snapshots. All methods are safe for concurrent use. Describing methods accept any
// number of ids and page and batch by themselves; results come in no particular order.
type Snapshots interface {
	// Cut takes a crash-consistent multi-volume set with one CreateSnapshots call and returns when EC2 has accepted it:
	// the data is then fixed, though copying takes hours. EC2 has no idempotency token for this call; after an error of
	// kind Unknown or Limited the set may exist: look it up by tag (FindSnapshots) before retrying. Kinds: Denied,
	// Limited, NotFound, Usage, Unknown.
	Cut(ctx context.Context, req CutRequest) ([]Snapshot, error)
	// DescribeSnapshots returns the snapshots with these ids. One that does not exist is left out.
	DescribeSnapshots(ctx context.Context, ids []cluster.SnapshotID) ([]Snapshot, error)
	// FindSnapshots returns all own snapshots that carry every one of these tags. A snapshot younger than
	// a minute may not be visible yet.
	FindSnapshots(ctx context.Context, tags Tags) ([]Snapshot, error)
	// DeleteSnapshot deletes one snapshot; deleting one that does not exist succeeds.
	DeleteSnapshot(ctx context.Context, id cluster.SnapshotID) error
	// Attachments reads what is attached to all of these instances, with one paged call per 200 of them. A missing
	// instance is NotFound. Pass the answer to CutRequest.Attached right away: the older it is, the likelier a set with
	// the wrong volumes.
	Attachments(ctx context.Context, ids []cluster.InstanceID) (Attachments, error)
}
