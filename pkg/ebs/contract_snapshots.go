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

// Attachments is what was attached to instances at one time. An instance that is not in it was
// not asked for; one without volumes has an empty list.
type Attachments map[cluster.InstanceID][]Attachment

// CutRequest asks for one point-in-time set of an instance's volumes.
type CutRequest struct {
	Instance cluster.InstanceID
	// Volumes are exactly those wanted. Every other volume that is attached when the call is made,
	// the boot volume included, is excluded by the call.
	Volumes []cluster.VolumeID
	Tags    Tags
	// Attached is what was attached to all instances of the cut a moment ago (Attachments): with it, the first try
	// asks EC2 nothing more. nil makes Cut describe them itself. Later tries always describe them again.
	Attached Attachments `json:"-"`
	// Before is called right before each CreateSnapshots is sent, after all waiting for EC2's rate: an error of it ends
	// the call, and nothing is sent. nil is not called.
	Before func() error `json:"-"`
}

// Snapshots makes and reads snapshots. All methods are safe for concurrent use. Describing methods accept any
// number of ids and page and batch by themselves; results come in no particular order.
type Snapshots interface {
	// Cut takes a crash-consistent multi-volume set by one CreateSnapshots call and returns when EC2 has
	// accepted it: the data are then fixed, though copying takes hours. EC2 has no idempotency token
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
	// Attachments reads what is attached to all of these instances, by one paged call for each 200 of them.
	// An instance that does not exist is NotFound. Give the answer to CutRequest.Attached right away: the
	// older it is, the likelier a set that does not hold what was wanted.
	Attachments(ctx context.Context, ids []cluster.InstanceID) (Attachments, error)
}
