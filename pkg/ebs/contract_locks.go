package ebs

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// The modes of a lock, as EC2 reports them. A lock in compliance mode that is cooling off can still be undone.
const (
	LockGovernance = "governance"
	LockCompliance = "compliance"
	LockCoolingOff = "compliance-cooloff"
	LockExpired    = "expired"
)

// SnapshotLock keeps a snapshot from being deleted.
type SnapshotLock struct {
	Snapshot cluster.SnapshotID
	// Mode is governance, compliance, compliance-cooloff or expired.
	Mode      string
	ExpiresAt time.Time // zero where EC2 does not know yet: the snapshot is pending
	// CooledOffAt is when a lock that is cooling off can no longer be undone; zero without a cooling-off period.
	CooledOffAt time.Time
}

// Holds reports whether the snapshot cannot be deleted now.
func (l SnapshotLock) Holds() bool { return l.Mode != LockExpired }

// MaxCoolOff is the longest cooling-off period of a lock in compliance mode; it is in whole hours.
const MaxCoolOff = 72 * time.Hour

// LockRequest asks for a lock.
type LockRequest struct {
	Snapshot cluster.SnapshotID
	// Mode is LockGovernance or LockCompliance.
	Mode  string
	Until time.Time
	// CoolOff is how long a new lock in compliance mode can still be undone; 0 is not at all, from the first moment on.
	CoolOff time.Duration
}

// Locker locks snapshots.
type Locker interface {
	// LockSnapshot locks a snapshot until at least the given time, and returns the lock that holds afterwards. It only
	// ever strengthens a lock: one that has the mode and lasts long enough stays as it is, one that would get weaker or
	// shorter is a Conflict and stays. It is idempotent. A lock in compliance mode cannot be undone by anyone,
	// AWS included. Kinds: Conflict, Denied, Limited, NotFound, Unready (the snapshot is in error, or pending and
	// locked by days), Usage, Unknown.
	LockSnapshot(ctx context.Context, req LockRequest) (SnapshotLock, error)
	// UnlockSnapshot removes a lock in governance mode, or one that is cooling off. A snapshot without a lock, or that
	// does not exist, succeeds; a lock in compliance mode is a Conflict.
	UnlockSnapshot(ctx context.Context, id cluster.SnapshotID) error
}
