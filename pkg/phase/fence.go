package phase

import (
	"context"

	"github.com/tisnap/tisnap/pkg/fenced"
)

// Fence says whether another process has, or may have, what the run works on. runlock.Fence is one.
type Fence interface {
	// Check asks before a step begins; an answer may count for seconds.
	Check(ctx context.Context) error
	// Confirm asks for sure, before an undo or an adoption begins.
	Confirm(ctx context.Context) error
	// Recheck is for right before each call that changes something.
	Recheck(ctx context.Context) error
}

// nobodyElse is the fence of a run without a lock.
type nobodyElse struct{}

func (nobodyElse) Check(context.Context) error   { return nil }
func (nobodyElse) Confirm(context.Context) error { return nil }
func (nobodyElse) Recheck(context.Context) error { return nil }

// fenced is f behind the run's fence, which is asked before it, and by the adapters before each call of it that may change
// something: a process that was suspended at any point of it learns of the next owner before its next effect. With a reason why
// not, it is f.
func (e *Engine) fenced(why string, ask func(context.Context) error, f func(context.Context, *Scope) error) func(context.Context, *Scope) error {
	if why != "" {
		return f
	}
	return func(ctx context.Context, s *Scope) error {
		if err := fenced.Check(fenced.With(ctx, ask)); err != nil {
			return err
		}
		return f(fenced.With(ctx, e.cfg.Fence.Recheck), s)
	}
}

// sayKept says what an undo that the lock refused leaves.
func (s *Scope) sayKept(err error) {
	if s.step.Undo.Kept != "" && fenced.Refused(err) {
		s.Warn("%s", s.step.Undo.Kept)
	}
}
