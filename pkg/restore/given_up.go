package restore

import (
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// givenUp reports whether another run has, or may have, the cluster: this run lost its lock, its stores were asked
// to follow somebody else, or the lock is another run's by now. What is there is not this run's to delete then.
// A lock that cannot be read is still ours: nobody could take it while it was renewed.
func (t *task) givenUp(ctx context.Context) bool {
	if t.resolver.TakenOver() {
		return true
	}
	lock, _, err := runlock.Read(ctx, t.Store, t.opts.Target)
	if err == nil && lock.Owner.Run != t.opts.Run {
		t.resolver.Yield()
		return true
	}
	return false
}

// locked makes the steps that change something, from the one that takes the lock on, look first whether the lock
// is this run's still: a process that stood still must not go on with a cluster that serves by now.
func (t *task) locked(steps []phase.Step) []phase.Step {
	taken := slices.IndexFunc(steps, func(s phase.Step) bool { return s.Name == journal.StepLock })
	for i := range steps {
		if i <= taken || steps[i].ReadOnly || steps[i].Name == "unlock" {
			continue
		}
		do := steps[i].Do
		steps[i].Do = func(ctx context.Context, s *phase.Scope) error {
			if err := t.ours(ctx); err != nil {
				return err
			}
			return do(ctx, s)
		}
	}
	return steps
}

// ours is an error if another run may have the cluster.
func (t *task) ours(ctx context.Context) error {
	err := t.lock.Check(ctx)
	if failure.Is(err, failure.Conflict) {
		t.resolver.Yield()
	}
	return err
}

// dataSteps are the resolver's. A run that lost the cluster leaves what is set in PD to the one that has it; if that
// has ended, what this one has set since is its own to end.
func (t *task) dataSteps() []phase.Step {
	steps := t.resolver.Steps(phaseData)
	for i := range steps {
		if undo := steps[i].Undo; steps[i].Name == journal.StepFreezeScheduling {
			steps[i].Undo = func(ctx context.Context, s *phase.Scope) error {
				if t.resolver.TakenOver() && t.othersHaveEnded(ctx) {
					t.resolver.Reclaim()
					defer t.resolver.Yield()
				}
				return undo(ctx, s)
			}
		}
	}
	return steps
}

// othersHaveEnded reports whether another run has had the cluster's lock after this one, and has let it go.
func (t *task) othersHaveEnded(ctx context.Context) bool {
	lock, _, err := runlock.Read(ctx, t.Store, t.opts.Target)
	return err == nil && lock.Owner.Run != t.opts.Run && !lock.Held(time.Now())
}
