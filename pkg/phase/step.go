package phase

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Step is one thing to do and, if something fails later, to undo.
type Step struct {
	// Phase is what the user sees timed; consecutive steps with the same phase are timed together.
	Phase string
	// Name is unique within the run. It is in the journal, so it never changes between versions.
	Name string
	// Deadline bounds Do; it must be positive.
	Deadline time.Duration
	// Do carries the step out. It must be safe to call again after a crash half-way.
	Do func(ctx context.Context, s *Scope) error
	// ReadOnly promises that Do changes nothing anywhere. The journal is not written before the first step
	// that is not read-only, so a run that preflight refuses leaves no trace.
	ReadOnly bool
	// Unfenced is why Do does not ask Config.Fence, as that of any other step does that is not ReadOnly.
	Unfenced string
	// Retry repeats Do on a transient error (failure.Transient) until the deadline: for
	// steps of few calls, so that a change of PD's leader does not undo hours of work.
	Retry bool
	// Patience is how long Retry repeats at most; zero is until the deadline.
	Patience time.Duration

	Undo   Undo
	Order  Order
	Resume Resumption
	Record Recording
}

// Undo is how a step is taken back.
type Undo struct {
	// Do takes back what the step did, all or part of it, and succeeds if there is nothing to take back; nil is that
	// nothing is. It gets a context that the run's cancellation does not end, bounded by Deadline.
	Do func(ctx context.Context, s *Scope) error
	// Deadline bounds Do; zero is the step's.
	Deadline time.Duration
	// First runs this undo before all others: for what a live cluster feels.
	First bool
	// Unfenced is why Do does not ask Config.Fence: a live cluster's release never waits for the lock.
	Unfenced string
	// Kept says what stays when the lock is lost before or during Do, and who takes it away then.
	Kept string
}

// Order is what a step comes after, and what it means for other steps.
type Order struct {
	// After names the earlier steps that must be done before this one begins; what those come after is included. Empty
	// is all steps listed before it. Steps of which none comes after the other may run at the same time.
	After []string
	// Ends names earlier steps whose effects this one ends: once this step is done, they are not undone.
	Ends []string
	// Decides lets the step end by itself when another one fails beside it: whether it is done decides what is undone.
	Decides bool
}

// Resumption is what becomes of a step that is done when the run is resumed by another process.
type Resumption struct {
	// State, a pointer, is journalled as JSON when the step is done and restored when the run resumes.
	State any
	// Repeat does the step again although it is done: what it made is in its process alone, or it checks. A step
	// without it is adopted: its State is restored, and Adopted is called.
	Repeat bool
	// Adopted finds by tag, token or State what later steps need of a step that is not done again; nil for nothing.
	Adopted func(ctx context.Context, s *Scope) error
}

// Recording is whether a step waits until the journal's records before it are durable. Without either it does.
type Recording struct {
	// NoWait begins the step before: only for steps that release something.
	NoWait bool
	// MayBeLate begins the step after a while all the same: only for steps whose effects can be found again without the
	// journal.
	MayBeLate bool
}

func validate(steps []Step) error {
	seen := map[string]bool{}
	for _, s := range steps {
		switch {
		case s.Name == "" || s.Phase == "" || s.Do == nil:
			return failure.New(failure.Unknown, "plan run", s.Name, "a step needs a name, a phase and something to do")
		case s.Deadline <= 0:
			return failure.New(failure.Unknown, "plan run", s.Name, "a step needs a deadline")
		case seen[s.Name]:
			return failure.New(failure.Unknown, "plan run", s.Name, "two steps have this name")
		}
		for _, name := range slices.Concat(s.Order.Ends, s.Order.After) {
			if !seen[name] {
				return failure.New(failure.Unknown, "plan run", s.Name,
					"it ends or comes after %q, which no earlier step is called", name)
			}
		}
		seen[s.Name] = true
	}
	if len(steps) == 0 {
		return failure.New(failure.Unknown, "plan run", "", "no steps")
	}
	return nil
}

func (s *Step) undoDeadline() time.Duration {
	if s.Undo.Deadline > 0 {
		return s.Undo.Deadline
	}
	return s.Deadline
}

// deadlineError names the step and its deadline, so that a person knows what did not answer.
func deadlineError(err error, what string, limit time.Duration) error {
	return &failure.Error{
		Op: what, Kind: failure.KindOf(err), Hint: failure.HintOf(err),
		Err: fmt.Errorf("not done within %s: %w", limit, err),
	}
}
