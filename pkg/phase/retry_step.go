package phase

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/wait"
)

// The waits between tries of a step.
const (
	minRetryInterval = 500 * time.Millisecond
	maxRetryInterval = 10 * time.Second
)

// try calls Do once, or repeatedly for a step with Retry.
func (e *Engine) try(ctx context.Context, step *Step, s *Scope) error {
	begin := time.Now()
	why := step.Unfenced
	if step.ReadOnly {
		why = "it changes nothing"
	}
	do := step.Do
	if step.ReadsLock {
		do = func(ctx context.Context, s *Scope) error { return step.Do(fenced.With(ctx, e.cfg.Fence.Check), s) }
	}
	do = e.fenced(why, e.cfg.Fence.Check, do)
	for interval := minRetryInterval; ; interval = min(2*interval, maxRetryInterval) {
		err := e.call(ctx, do, s)
		if !step.Retry || !failure.Transient(err) || step.Patience > 0 && time.Since(begin)+interval > step.Patience {
			return err
		}
		s.Note("trying again: %v", err)
		if wait.For(ctx, interval) != nil {
			return err
		}
	}
}

// call turns a panic into an error, with the stack in the log, so that the run is undone as after any error.
func (e *Engine) call(ctx context.Context, f func(context.Context, *Scope) error, s *Scope) (err error) {
	defer func() {
		var panicked *failure.PanicError
		if errors.As(err, &panicked) {
			s.Log.Error("a step panicked", zap.Error(err), zap.ByteString("stack", panicked.Stack))
		}
	}()
	defer failure.Catch(&err, s.step.Name)
	return f(ctx, s)
}
