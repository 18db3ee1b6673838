package runlock

import (
	"cmp"
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

// Notify is how an owner waits for its lock, and its callbacks.
type Notify struct {
	// Lost is called at most once, with the reason, if the lock is lost: the run must then stop.
	Lost func(error)
	// Watching, if not nil, is called if another run holds the lock: finding out whether it is alive takes a minute.
	Watching func(held *Record)
	// Wait bounds how long another run's lock is watched; zero is DefaultWait, and NoWait refuses at once.
	Wait time.Duration
	// After is a lower bound for the lock's epoch: that of the run's journal, in case the lock's object was deleted.
	After int64
}

// DefaultWait is long enough to find out that a lock's owner is dead.
const (
	DefaultWait = 90 * time.Second
	NoWait      = -1 * time.Nanosecond
)

// Take acquires the cluster's lock and keeps it until Release, even if ctx ends. It watches another run's lock, by
// version only: it takes over if the lock is released, or not renewed for a minute, and refuses as soon as the lock is
// renewed, or after notify.Wait. The errors are those of Acquire.
func Take(
	ctx context.Context, store objstore.Store, name cluster.Name, owner Owner, ttl time.Duration, notify Notify,
) (*HeldLock, error) {
	lock, err := acquire(ctx, store, name, owner, ttl, "", notify.After)
	if failure.Is(err, failure.Conflict) && notify.Wait >= 0 {
		lock, err = takeFromOther(ctx, store, name, owner, ttl, notify)
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

// takeFromOther watches another run's lock, and acquires it if it becomes free or its owner is dead.
func takeFromOther(
	ctx context.Context, store objstore.Store, name cluster.Name, owner Owner, ttl time.Duration, notify Notify,
) (*Lock, error) {
	watching := notify.Watching
	if watching == nil {
		watching = func(*Record) {}
	}
	found, err := watch(ctx, store, name, cmp.Or(notify.Wait, DefaultWait), watching)
	switch {
	case err != nil:
		return nil, err
	case found.Dead:
		return acquire(ctx, store, name, owner, ttl, found.version, notify.After)
	case found.Record.Released:
		return acquire(ctx, store, name, owner, ttl, "", notify.After)
	case found.renewed:
		return nil, held(found.Record, time.Now()).
			WithHint("wait for that run: it is alive, because it renewed its lock while watched")
	}
	return nil, held(found.Record, time.Now())
}

// Epoch returns the lock's fencing number: higher than that of every earlier owner. For nil it is 0.
func (h *HeldLock) Epoch() int64 {
	if h == nil {
		return 0
	}
	return h.lock.Epoch()
}

// Release ends the renewals and frees the lock, even if ctx has ended: by then a cancelled run is done or undone.
// Releasing nil succeeds. After an error the lock frees itself by expiry.
func (h *HeldLock) Release(ctx context.Context) error {
	if h == nil {
		return nil
	}
	h.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseDeadline)
	defer cancel()
	return failure.Annotate(h.lock.Release(ctx), "release lock", h.name.String())
}
