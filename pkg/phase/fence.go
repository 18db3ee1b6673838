package phase

import (
	"context"

	"github.com/tisnap/tisnap/pkg/fenced"
)

// fenced wraps f in the run's fence, which is checked before f, and by the adapters before each of its calls that may
// change something: a process suspended at any point notices the next owner before its next effect. With a reason not
// to, it returns f.
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

// recheck precedes each call that changes something. It makes no call while the fence has no objection; in a process
// that was suspended, or cut off from object storage, it waits for the answer.
func (e *Engine) recheck(ctx context.Context) error {
	if e.cfg.Fence.Current() == nil {
		return nil
	}
	return e.cfg.Fence.Check(ctx)
}

// warnKept reports what an undo refused by the lock leaves behind.
func (s *Scope) warnKept(err error) {
	if s.step.Undo.Kept != "" && fenced.Refused(err) {
		s.Warn("%s", s.step.Undo.Kept)
	}
}
