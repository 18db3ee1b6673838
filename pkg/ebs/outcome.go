package ebs

// SnapshotOutcome is what a snapshot's state means to one who waits for it.
type SnapshotOutcome uint8

// The outcomes.
const (
	SnapshotWaits  SnapshotOutcome = iota // on its way: it is waited for as long as there is progress
	SnapshotDone                          // completed
	SnapshotFailed                        // will never complete, and with it no other of its set
	// a state that nobody documented: it is waited for, reported once, and ends by lack of progress
	SnapshotStrange
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
	VolumeWaits  VolumeOutcome = iota // on its way
	VolumeUsable                      // available, or attached already
	VolumeFailed                      // will never be usable
	// a state that nobody documented: it is waited for, reported once, and ends by the deadline
	VolumeStrange
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
