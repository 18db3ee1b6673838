package ebs

// SnapshotOutcome is what a snapshot's state means to a waiting caller.
type SnapshotOutcome uint8

// The outcomes.
const (
	SnapshotWaits  SnapshotOutcome = iota // on its way: it is waited for as long as there is progress
	SnapshotDone                          // completed
	SnapshotFailed                        // will never complete, and with it no other of its set
	// an undocumented state: reported once and awaited until progress stops
	SnapshotStrange
)

// Outcome maps every state, including unknown ones. "recoverable" is a snapshot deleted into the Recycle Bin;
// "recovering" is one being restored from there.
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

// VolumeOutcome is what a volume's state means to a waiting caller.
type VolumeOutcome uint8

// The outcomes.
const (
	VolumeWaits  VolumeOutcome = iota // on its way
	VolumeUsable                      // available, or attached already
	VolumeFailed                      // will never be usable
	// an undocumented state: reported once and awaited until the deadline
	VolumeStrange
)

// Outcome maps every state, including unknown ones.
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
