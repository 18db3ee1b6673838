package runlock

import (
	"context"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Fence says to one run whether another run has, or may have, its cluster. It is safe for concurrent use.
//
// A loss is noted once, with its reason, and for good: by the renewals, by Check, by Confirm, or by somebody who sees
// it elsewhere (Lose), such as in a store that follows another run.
//
// Check and Confirm read the lock, Current and Loss ask nobody, and Holder says who has it.
type Fence struct {
	store   objstore.Store
	cluster cluster.Name
	owner   Owner

	mu       sync.Mutex
	held     *HeldLock
	released bool // by this run itself
	lost     error
}

// NewFence makes the fence of a run that has not taken the lock yet.
func NewFence(store objstore.Store, name cluster.Name, owner Owner) *Fence {
	return &Fence{store: store, cluster: name, owner: owner}
}

// Take acquires the lock and keeps it until Release, as the function Take does. A loss is noted before notify hears of
// it.
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

// Epoch is that of the lock; 0 if there is none.
func (f *Fence) Epoch() int64 { return f.lock().Epoch() }

// Release is that of the lock; it succeeds if there is none.
func (f *Fence) Release(ctx context.Context) error {
	f.mu.Lock()
	f.released = true // also after an error: it may have happened
	f.mu.Unlock()
	return f.lock().Release(ctx)
}

// Check confirms that the lock is still held. Call it right before what two runs must not both do: a process that was
// suspended while its lock was given to another run learns of it by the next renewal only, which is too late. An
// answer counts for 2 s, so that it may be called often. It is Conflict once the lock is lost or was never taken. If
// object storage does not answer, the last renewal counts while nobody can have taken the lock over; then Check waits
// for the answer, until the lease ends.
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

// Current says without asking anybody whether the lock can still be this run's: it is Conflict if a loss was noted, if
// the lock was never taken, or if it was renewed so long ago that another run may have taken it over, as in a process
// that was suspended. Call it right before each effect that must wait for nothing, such as those of a hold.
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
				"storage does not answer").
			WithHint("run the same command again")
	}
	return nil
}

// Lose notes that another run has, or may have, the cluster. The first reason is kept.
func (f *Fence) Lose(reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lost == nil {
		f.lost = reason
	}
}

// Loss is the reason of the loss, of kind Conflict; nil if none was noted. It asks nobody.
func (f *Fence) Loss() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// Confirm is Check that counts no earlier answer: ask it before what takes something away, as a person may have broken
// the lock a moment ago. Its error is that of the loss, of kind Conflict. A lock that was deleted, or released by
// somebody else, is lost, as Check says. One that cannot be read is still held while the last renewal is so young that
// nobody can have taken it over; after that it may be another run's. So it is with an answer that waited for a process
// that was suspended: it is asked for again.
func (f *Fence) Confirm(ctx context.Context) error {
	if reason := f.Loss(); reason != nil {
		return reason
	}
	held := f.lock()
	start := time.Now()
	record, _, err := Read(ctx, f.store, f.cluster)
	for err == nil && held != nil && !younger(start, confirmedFor, time.Now()) && !held.lock.trusted(time.Now()) {
		start = time.Now() // the process was suspended while the answer waited for it
		record, _, err = Read(ctx, f.store, f.cluster)
	}
	switch {
	case err == nil && (record.Owner.Run != f.owner.Run || held != nil && record.Nonce != held.lock.nonce):
		f.Lose(lostTo(record))
	case err == nil && record.Released && held != nil && !f.releasedIt():
		f.Lose(releasedByOthers(f.cluster))
	case failure.Is(err, failure.NotFound) && held != nil && !f.releasedIt():
		f.Lose(deleted(f.cluster))
	case err != nil && !failure.Is(err, failure.NotFound) && held != nil && !held.lock.trusted(time.Now()):
		f.Lose(failure.New(failure.Conflict, "check lock", f.cluster.String(),
			"it was not renewed for so long that another run may have it, and it cannot be read: %w", err))
	}
	return f.Loss()
}

// Holder reads who has the lock. It notes no loss.
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

// Explain is the error of a run that failed: if its lock was lost, that is what a script has to know, and not what
// failed before it was noticed. A process that was suspended wakes with its deadlines behind it, calls cut off, and a
// cluster that another run has changed. A cluster that is still held outranks it. It asks nobody.
func (f *Fence) Explain(op string, err error) error {
	if err == nil || f.Loss() == nil || failure.Is(err, failure.Conflict) || failure.Is(err, failure.Held) {
		return err
	}
	return failure.New(failure.Conflict, op, f.cluster.String(), "%w; before that was noticed: %w", f.Loss(), err)
}
