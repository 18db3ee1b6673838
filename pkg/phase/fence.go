package phase

import (
	"context"

	"github.com/tisnap/tisnap/pkg/fenced"
)

// Fence says whether another process has, or may have, what the run works on. runlock.Fence is one.
type Fence interface {
	// Check asks before a step begins, and when Current is against it; an answer may count for seconds.
	Check(ctx context.Context) error
	// Confirm asks for sure, before an undo or an adoption begins.
	Confirm(ctx context.Context) error
	// Current asks nobody whether that can be known without.
	Current() error
}

// nobodyElse is the fence of a run without a lock.
type nobodyElse struct{}

func (nobodyElse) Check(context.Context) error   { return nil }
func (nobodyElse) Confirm(context.Context) error { return nil }
func (nobodyElse) Current() error                { return nil }

// fenced is f behind the run's fence, which is asked before it, and by the adapters before each call of it that may
// change something: a process that was suspended at any point of it learns of the next owner before its next effect.
// With a reason why not, it is f.
func (e *Engine) fenced(
	why string, ask func(context.Context) error, f func(context.Context, *Scope) error,
) func(context.Context, *Scope) error {
	if why != "" {
		return f
	}
	return func(ctx context.Context, s *Scope) error {
		if err := fenced.Check(fenced.With(ctx, ask)); err != nil {
			return err
		}
		return f(fenced.With(ctx, e.recheck), s)
	}
}

// recheck is for right before each call that changes something. While the fence has nothing against it without asking,
// it asks nobody; in a process that was suspended, or cut off from object storage, it waits for the answer.
func (e *Engine) recheck(ctx context.Context) error {
	if e.cfg.Fence.Current() == nil {
		return nil
	}
	return e.cfg.Fence.Check(ctx)
}

// sayKept says what an undo that the lock refused leaves.
func (s *Scope) sayKept(err error) {
	if s.step.Undo.Kept != "" && fenced.Refused(err) {
		s.Warn("%s", s.step.Undo.Kept)
	}
}
