package phase

import (
	"context"
	"errors"
	"time"
)

// StopError is the cause of a context that ends a run because its process has to end.
type StopError struct {
	// Reason is why the process ends.
	Reason error
	// UndoBy is when the run has to have undone what it did; each undo that is left then gets a moment, and says what
	// it leaves. Zero is no bound but the steps' own.
	UndoBy time.Time
}

// Error is the reason's text.
func (s *StopError) Error() string { return s.Reason.Error() }

// Unwrap returns the reason.
func (s *StopError) Unwrap() error { return s.Reason }

// Is makes it one of context.Canceled, as net/http returns a context's cause in its place: a call that was ended so is
// not tried again, and says nothing about the other side.
func (s *StopError) Is(target error) bool { return target == context.Canceled }

// minUndo is how long an undo gets at least: enough for one call, or to say what is left.
const minUndo = time.Second

// undoLimit is how long the undo of the step may take when the run of ctx is undone now.
func undoLimit(ctx context.Context, step *Step) time.Duration {
	limit := step.undoDeadline()
	var stop *StopError
	if errors.As(context.Cause(ctx), &stop) && !stop.UndoBy.IsZero() {
		limit = min(limit, max(time.Until(stop.UndoBy), minUndo))
	}
	return limit
}
