package runner

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/wait"
)

// LockTTL is how long a dead run keeps others from its cluster, and how long object storage may be unavailable without
// ending a run. A hold has its own, shorter leases.
const LockTTL = 10 * time.Minute

const (
	// lockInterval is how often a lock held by another run is retried.
	lockInterval = 5 * time.Second
	// itIsTheLock is why the lock's own steps do not check it.
	itIsTheLock = "it is the lock"
	remainsRun  = "run"
)

// LockStep acquires the lock by take, which calls Lock.
func (r *Runner) LockStep(in string, take func(context.Context, *phase.Scope) error) phase.Step {
	return phase.Step{
		Phase: in, Name: journal.StepLock, Deadline: 3*time.Minute + r.cfg.AliveWait + max(0, r.cfg.LockWait), Do: take,
		Undo: phase.Undo{Do: r.release, Unfenced: itIsTheLock}, Resume: phase.Resumption{Repeat: true},
		Unfenced: itIsTheLock,
	}
}

// UnlockStep frees the lock of a run that is done: what the steps named in ends made is kept.
func (r *Runner) UnlockStep(in string, ends ...string) phase.Step {
	return phase.Step{
		Phase: in, Name: "unlock", Deadline: time.Minute, Do: r.unlock, Unfenced: itIsTheLock,
		Order: phase.Order{Ends: append([]string{journal.StepLock}, ends...)}, Resume: phase.Resumption{Repeat: true},
	}
}

// Lock admits one run at a time to the cluster. Losing the lock ends the run, which then keeps what it made: that may
// be another run's by now.
func (r *Runner) Lock(ctx context.Context, s *phase.Scope) error {
	if err := r.storage.ProveServer(ctx, r.cfg.Store, r.cfg.Tool); err != nil {
		return err
	}
	start := time.Now()
	err := wait.Until(ctx, wait.Every(lockInterval), func() (bool, error) {
		err := r.tryLock(ctx, s)
		if !failure.Is(err, failure.Conflict) || time.Since(start) >= r.cfg.AliveWait {
			return true, err
		}
		s.Note("another run has the lock; trying again until it is free, or known to be of a dead run: %v", err)
		return false, err
	})
	if err != nil {
		return wait.Reason(err)
	}
	return r.storage.Establish(ctx, r.cfg.Store, r.storageID)
}

func (r *Runner) tryLock(ctx context.Context, s *phase.Scope) error {
	var after int64
	if r.earlier != nil {
		after = r.earlier.Epoch()
	}
	err := r.fence.Take(ctx, LockTTL, runlock.Notify{
		Wait: r.cfg.LockWait, After: after, Lost: r.cancel,
		Watching: func(held *runlock.Record) {
			r.waited = true
			s.Note("%s", held.Watching())
		},
	})
	if err == nil {
		r.cfg.Remains.Set(remainsRun, func() string { return r.cfg.Unfinished })
	}
	return err
}

// unlock frees the lock. If that fails the lock expires, and nothing is undone.
func (r *Runner) unlock(ctx context.Context, s *phase.Scope) error {
	if err := r.release(ctx, s); err != nil {
		s.Warn("the lock frees itself within %s: %v", LockTTL, err)
	}
	return nil
}

// release frees the lock.
func (r *Runner) release(ctx context.Context, _ *phase.Scope) error {
	err := r.fence.Release(ctx)
	if err == nil {
		r.cfg.Remains.Clear(remainsRun)
	}
	return err
}
