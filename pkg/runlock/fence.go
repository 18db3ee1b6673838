package runlock

import (
	"context"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Fence is the fenced.Fence of a lock, and takes and releases it. It is safe for concurrent use.
//
// A loss is recorded once, with its reason, and permanently: by the renewals, by Check, by Confirm, or by a caller that
// notices it elsewhere (Lose), such as in a store that follows another run.
//
// Check and Confirm read the lock, Current and Loss make no call, and Holder returns its owner.
type Fence struct {
	store   objstore.Store
	cluster cluster.Name
	owner   Owner

	mu       sync.Mutex
	held     *HeldLock
	released bool // by this run itself
	lost     error
}

// NewFence returns the fence of a run that has not taken the lock yet.
func NewFence(store objstore.Store, name cluster.Name, owner Owner) *Fence {
	return &Fence{store: store, cluster: name, owner: owner}
}

// Take acquires the lock and keeps it until Release, as the function Take does. A loss is recorded before notify is
// called.
func (f *Fence) Take(ctx context.Context, ttl time.Duration, notify Notify) error {
	lost := notify.Lost
	notify.Lost = func(reason error) {
		f.Lose(reason)
		lost(reason)
	}
	held, err := Take(ctx, f.store, f.cluster, f.owner, ttl, notify)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held, f.released = held, false
	return nil
}

// Epoch returns the lock's epoch; 0 if there is no lock.
func (f *Fence) Epoch() int64 { return f.lock().Epoch() }

// Release releases the lock; it succeeds if there is none.
func (f *Fence) Release(ctx context.Context) error {
	f.mu.Lock()
	f.released = true // even after an error: it may have happened
	f.mu.Unlock()
	return f.lock().Release(ctx)
}

// Check confirms that the lock is still held. Call it right before anything that two runs must not both do: a process
// suspended while another run took its lock would otherwise notice only at the next renewal, too late. An answer is
// valid for 2 s, so it may be called often. It returns a Conflict once the lock is lost or was never taken. If object
// storage does not answer, the last renewal suffices while no other run can have taken over the lock; after that Check
// waits for the answer, until the lease ends.
func (f *Fence) Check(ctx context.Context) error {
	if reason := f.Loss(); reason != nil {
		return reason
	}
	held := f.lock()
	if held == nil {
		return failure.New(failure.Conflict, "check lock", f.cluster.String(), "it was not taken")
	}
	err := held.lock.check(ctx)
	if failure.Is(err, failure.Conflict) {
		f.Lose(err)
	}
	return err
}

// Current reports without any call whether the lock can still be this run's: it returns a Conflict if a loss was
// recorded, if the lock was never taken, or if its last renewal is so old that another run may have taken over, as in a
// suspended process. Call it right before effects that must not wait, such as those of a hold.
func (f *Fence) Current() error {
	if reason := f.Loss(); reason != nil {
		return reason
	}
	held := f.lock()
	switch {
	case held == nil:
		return failure.New(failure.Conflict, "check lock", f.cluster.String(), "it was not taken")
	case !held.lock.trusted(time.Now()):
		return failure.New(failure.Conflict, "check lock", f.cluster.String(),
			"it was not renewed for so long that another run may have it: this process was suspended, or object "+
				"storage did not answer").
			WithHint("run the same command again")
	}
	return nil
}

// Lose records that another run has, or may have, the cluster. The first reason is kept.
func (f *Fence) Lose(reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost == nil {
		f.lost = reason
	}
}

// Loss returns the reason for the loss, of kind Conflict; nil if none was recorded. It makes no call.
func (f *Fence) Loss() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// Confirm is Check without the validity of earlier answers: call it before deleting something, as someone may have
// broken the lock a moment ago. Its error is the loss, of kind Conflict. As for Check, a deleted lock, or one released
// by another process, is lost. An unreadable lock is still held while the last renewal is so recent that no run can
// have taken over; after that it may be another run's. An answer read after a suspension is stale and is read again.
func (f *Fence) Confirm(ctx context.Context) error {
	if reason := f.Loss(); reason != nil {
		return reason
	}
	held := f.lock()
	start := time.Now()
	record, _, err := Read(ctx, f.store, f.cluster)
	for err == nil && held != nil && !wait.Younger(start, confirmedFor, time.Now()) && !held.lock.trusted(time.Now()) {
		start = time.Now() // the process was suspended before it read the answer
		record, _, err = Read(ctx, f.store, f.cluster)
	}
	if err == nil && record.Owner.Run != f.owner.Run {
		f.Lose(lostTo(record))
	} else if held != nil {
		f.loseHeld(held, record, err)
	}
	return f.Loss()
}

// loseHeld records the loss of a held lock, if that is what was read.
func (f *Fence) loseHeld(held *HeldLock, record *Record, err error) {
	missing := failure.Is(err, failure.NotFound)
	switch {
	case err == nil && record.Nonce != held.lock.nonce:
		f.Lose(lostTo(record))
	case err == nil && record.Released && !f.releasedIt():
		f.Lose(releasedByOthers(f.cluster))
	case missing && !f.releasedIt():
		f.Lose(deleted(f.cluster))
	case err != nil && !missing && !held.lock.trusted(time.Now()):
		f.Lose(failure.New(failure.Conflict, "check lock", f.cluster.String(),
			"it was not renewed for so long that another run may have it, and it cannot be read: %w", err))
	}
}

// Holder reads the lock's owner. It records no loss.
func (f *Fence) Holder(ctx context.Context) fenced.Holder {
	record, _, err := Read(ctx, f.store, f.cluster)
	held := f.lock()
	switch {
	case err != nil:
		return fenced.HolderUnknown
	case held != nil && record.Nonce == held.lock.nonce:
		return fenced.HolderThis
	case record.Owner.Run == f.owner.Run:
		return fenced.HolderSameRun
	case record.Held(time.Now()):
		return fenced.HolderOtherRun
	}
	return fenced.HolderEndedRun
}

func (f *Fence) lock() *HeldLock {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held
}

// releasedIt reports whether this run has released the lock.
func (f *Fence) releasedIt() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.released
}
