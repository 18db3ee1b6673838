package runlock

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// releaseDeadline bounds the one write that frees a lock.
const releaseDeadline = time.Minute

// HeldLock is a lock that is renewed until it is released.
type HeldLock struct {
	lock *Lock
	name cluster.Name
	stop func()
}

// Take acquires the cluster's lock and keeps it, whatever becomes of ctx, until Release. lost is called at
// most once, with the reason, if the lock is lost: the run has to end then. The errors are those of Acquire.
func Take(ctx context.Context, store objstore.Store, name cluster.Name, owner Owner, ttl time.Duration, lost func(error)) (*HeldLock, error) {
	lock, err := Acquire(ctx, store, name, owner, ttl)
	if err != nil {
		return nil, err
	}
	kept, stop := lock.Keep(context.WithoutCancel(ctx))
	detach := context.AfterFunc(kept, func() { lost(context.Cause(kept)) })
	return &HeldLock{lock: lock, name: name, stop: func() {
		detach()
		stop()
	}}, nil
}

// Release ends the renewals and frees the lock, also if ctx has ended: what is cancelled now is done, or
// undone. Releasing nil succeeds. After an error the lock frees itself by expiry.
func (h *HeldLock) Release(ctx context.Context) error {
	if h == nil {
		return nil
	}
	h.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseDeadline)
	defer cancel()
	return failure.Annotate(h.lock.Release(ctx), "release lock", h.name.String())
}
