package restore

import (
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// lockTTL is how long a dead run keeps others from the target, and how long object storage may be away
// without ending a restore.
const lockTTL = 10 * time.Minute

// takeLock admits one run at a time to the target. A lock that is lost ends the run: what is there may be another
// run's by now, and is kept.
func (t *task) takeLock(ctx context.Context, _ *phase.Scope) error {
	return t.fence.Take(ctx, lockTTL, t.cancel)
}

// unlock ends a run that has done its work. A lock that cannot be released frees itself, and does not make
// the work undone.
func (t *task) unlock(ctx context.Context, s *phase.Scope) error {
	if err := t.dropLock(ctx, s); err != nil {
		s.Warn("the lock frees itself within %s: %v", lockTTL, err)
	}
	return nil
}

// dropLock frees the lock.
func (t *task) dropLock(ctx context.Context, _ *phase.Scope) error { return t.fence.Release(ctx) }

// fenced makes the steps that change something, from the one that takes the lock on, check first that the lock is
// still held: a process that was suspended must not continue with a cluster that serves by now.
func (t *task) fenced(steps []phase.Step) []phase.Step {
	taken := slices.IndexFunc(steps, func(s phase.Step) bool { return s.Name == journal.StepLock })
	for i := range steps {
		if i <= taken || steps[i].ReadOnly || steps[i].Name == "unlock" {
			continue
		}
		do := steps[i].Do
		steps[i].Do = func(ctx context.Context, s *phase.Scope) error {
			if err := t.fence.Check(ctx); err != nil {
				return err
			}
			return do(ctx, s)
		}
	}
	return steps
}
