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

// Notify is what an owner wants to hear of its lock.
type Notify struct {
	// Lost is called at most once, with the reason, if the lock is lost: the run has to end then.
	Lost func(error)
	// Watching is called if another run holds the lock and seems to be dead: whether it is takes a minute to find out.
	// Nil is not called.
	Watching func(held *Record)
}

// Take acquires the cluster's lock and keeps it, whatever becomes of ctx, until Release. The lock of an owner that does
// not renew it is watched for a minute, and taken over if it is not renewed in that time. The errors are those of Acquire.
func Take(ctx context.Context, store objstore.Store, name cluster.Name, owner Owner, ttl time.Duration, notify Notify) (*HeldLock, error) {
	lock, err := Acquire(ctx, store, name, owner, ttl)
	if failure.Is(err, failure.Conflict) {
		watching := notify.Watching
		if watching == nil {
			watching = func(*Record) {}
		}
		found, watchErr := watch(ctx, store, name, watching)
		if watchErr != nil {
			return nil, watchErr
		}
		if found.Dead {
			lock, err = acquire(ctx, store, name, owner, ttl, found.version)
		}
	}
	if err != nil {
		return nil, err
	}
	kept, stop := lock.Keep(context.WithoutCancel(ctx))
	detach := context.AfterFunc(kept, func() { notify.Lost(context.Cause(kept)) })
	return &HeldLock{lock: lock, name: name, stop: func() {
		detach()
		stop()
	}}, nil
}

// Epoch is the lock's fencing number: higher than that of every owner before. That of nil is 0.
func (h *HeldLock) Epoch() int64 {
	if h == nil {
		return 0
	}
	return h.lock.Epoch()
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
