package restore

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/wait"
)

// lockTTL is how long a dead run keeps others from the target, and how long object storage may be away
// without ending a restore.
const lockTTL = 10 * time.Minute

// takeLock admits one run at a time to the target. A lock that is lost ends the run: what is there may be another
// run's by now, and is kept.
func (r *run) takeLock(ctx context.Context, s *phase.Scope) error {
	if err := r.storage.ProveServer(ctx, r.Store, r.opts.Tool); err != nil {
		return err
	}
	start := time.Now()
	err := wait.Until(ctx, wait.Every(lockInterval), func() (bool, error) {
		err := r.tryLock(ctx, s)
		if !failure.Is(err, failure.Conflict) || time.Since(start) >= r.opts.AliveWait {
			return true, err
		}
		s.Note("another run has the lock; trying again until it is free, or known to be of a dead run: %v", err)
		return false, err
	})
	if err != nil {
		return wait.Reason(err)
	}
	return r.storage.Establish(ctx, r.Store, r.storageID)
}

// lockTarget takes the target's lock; a restore that waited for another run checks again what that may have changed.
func (r *run) lockTarget(ctx context.Context, s *phase.Scope) error {
	if err := r.takeLock(ctx, s); err != nil || !r.waited || r.resumed {
		return err
	}
	return r.checkTarget(ctx)
}

// lockInterval is how often a lock that another run has is tried again.
const lockInterval = 5 * time.Second

func (r *run) tryLock(ctx context.Context, s *phase.Scope) error {
	err := r.fence.Take(ctx, lockTTL, runlock.Notify{
		Wait: r.opts.LockWait, After: r.earlier.lastEpoch,
		Lost: r.cancel,
		Watching: func(held *runlock.Record) {
			r.waited = true
			s.Note("%s", held.Watching())
		},
	})
	if err == nil {
		r.noteRun()
	}
	return err
}

// unlock frees the lock of a run that has done its work. A lock that cannot be released frees itself, and does not make
// the work undone.
func (r *run) unlock(ctx context.Context, s *phase.Scope) error {
	if err := r.dropLock(ctx, s); err != nil {
		s.Warn("the lock frees itself within %s: %v", lockTTL, err)
	}
	return nil
}

// dropLock frees the lock.
func (r *run) dropLock(ctx context.Context, _ *phase.Scope) error {
	err := r.fence.Release(ctx)
	if err == nil {
		r.Remains.Clear(remainsRun)
	}
	return err
}
