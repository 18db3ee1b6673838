package phase

import (
	"context"
	"errors"
	"time"
)

// StopError is the cause of a context that stops a run because its process must exit.
type StopError struct {
	// Reason is why the process exits.
	Reason error
	// UndoBy is when the run must have been undone; each remaining undo then gets a moment to report what it leaves.
	// Zero for no bound beyond the steps' own.
	UndoBy time.Time
}

// Error is the reason's text.
func (s *StopError) Error() string { return s.Reason.Error() }

// Unwrap returns the reason.
func (s *StopError) Unwrap() error { return s.Reason }

// Is makes it match context.Canceled, because net/http returns a context's cause instead: such a call is not retried,
// and its error does not show the state of the other side.
func (s *StopError) Is(target error) bool { return target == context.Canceled }

// minUndo is an undo's minimum time: enough for one call, or to report what is left.
const minUndo = time.Second

// undoLimit returns how long the step's undo may take if the run of ctx is undone now.
func undoLimit(ctx context.Context, step *Step) time.Duration {
	limit := step.undoDeadline()
	var stop *StopError
	if errors.As(context.Cause(ctx), &stop) && !stop.UndoBy.IsZero() {
		limit = min(limit, max(time.Until(stop.UndoBy), minUndo))
	}
	return limit
}
