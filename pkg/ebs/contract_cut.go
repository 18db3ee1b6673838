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

// Attachments is what was attached to instances at the time of one look. An instance that is not in it was
// not asked for; one without volumes has an empty list.
type Attachments map[cluster.InstanceID][]Attachment

// Instances is what a cut asks about machines.
type Instances interface {
	// Attachments reads what is attached to all of these instances, by one paged call for each 200 of them.
	// An instance that does not exist is NotFound. Give the answer to CutRequest.Attached right away: the
	// older it is, the likelier a set that does not hold what was wanted.
	Attachments(ctx context.Context, ids []cluster.InstanceID) (Attachments, error)
}

// SnapshotOutcome is what a snapshot's state means to one who waits for it.
type SnapshotOutcome uint8

// The outcomes.
const (
	SnapshotWaits   SnapshotOutcome = iota // on its way: go on as long as there is progress
	SnapshotDone                           // completed
	SnapshotFailed                         // will never complete, and with it no other of its set
	SnapshotStrange                        // a state that nobody documented: go on, say so once, and end by lack of progress
)

// Outcome decides for every state, unknown ones too. "recoverable" is a snapshot that somebody deleted into
// the Recycle Bin; "recovering" is one that comes back from there.
func (s SnapshotState) Outcome() SnapshotOutcome {
	switch s {
	case SnapshotCompleted:
		return SnapshotDone
	case SnapshotPending, SnapshotRecovering:
		return SnapshotWaits
	case SnapshotError, SnapshotRecoverable:
		return SnapshotFailed
	default:
		return SnapshotStrange
	}
}

// VolumeOutcome is what a volume's state means to one who waits for it.
type VolumeOutcome uint8

// The outcomes.
const (
	VolumeWaits   VolumeOutcome = iota // on its way
	VolumeUsable                       // available, or attached already
	VolumeFailed                       // will never be usable
	VolumeStrange                      // a state that nobody documented: go on, say so once, and end by the deadline
)

// Outcome decides for every state, unknown ones too.
func (s VolumeState) Outcome() VolumeOutcome {
	switch s {
	case VolumeAvailable, VolumeInUse:
		return VolumeUsable
	case VolumeCreating:
		return VolumeWaits
	case VolumeError, VolumeDeleting, VolumeDeleted:
		return VolumeFailed
	default:
		return VolumeStrange
	}
}
