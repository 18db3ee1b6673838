package phase

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Step is one action and its undo, in case something fails later.
type Step struct {
	// Phase is the unit that users see timed; consecutive steps of the same phase are timed together.
	Phase string
	// Name is unique within the run. It is in the journal, so it never changes between versions.
	Name string
	// Deadline bounds Do; it must be positive.
	Deadline time.Duration
	// Do executes the step. It must be safe to call again after a crash.
	Do func(ctx context.Context, s *Scope) error
	// ReadOnly promises that Do changes nothing anywhere. The journal is not written before the first step
	// that is not read-only, so a run that preflight refuses leaves no trace.
	ReadOnly bool
	// Unfenced is why Do does not check Config.Fence, as every other step that is not ReadOnly does.
	Unfenced string
	// ReadsLock makes each of Do's calls that may change something read the lock: one that a person broke is noticed
	// before the next renewal, where its calls would disturb the next run's. Otherwise the last renewal suffices.
	ReadsLock bool
	// Retry repeats Do on a transient error (failure.Transient) until the deadline: for
	// steps of few calls, so that a change of PD's leader does not undo hours of work.
	Retry bool
	// Patience bounds how long Retry repeats; zero is until the deadline.
	Patience time.Duration

	Undo   Undo
	Order  Order
	Resume Resumption
	Record Recording
}

// Undo reverses a step.
type Undo struct {
	// Do reverses whatever the step did, and succeeds if there is nothing to reverse; nil if there never is. Its
	// context, bounded by Deadline, survives the run's cancellation.
	Do func(ctx context.Context, s *Scope) error
	// Deadline bounds Do; zero for the step's.
	Deadline time.Duration
	// First runs this undo before all others: for effects on a live cluster.
	First bool
	// Unfenced is why Do does not check Config.Fence: releasing a live cluster never waits for the lock.
	Unfenced string
	// Kept describes what stays if the lock is lost before or during Do, and who removes it then.
	Kept string
}

// Order is a step's place in the run, and its effect on other steps.
type Order struct {
	// After names the earlier steps that must be done before this one begins, transitively; empty for all steps listed
	// before it. Steps that are not ordered may run concurrently.
	After []string
	// Ends names earlier steps whose effects this one ends: once this step is done, they are not undone.
	Ends []string
	// Decides keeps the step from being cancelled when a sibling fails: whether it completes decides what is undone.
	Decides bool
}

// Resumption is what happens to a completed step when another process resumes the run.
type Resumption struct {
	// State, a pointer, is journalled as JSON when the step is done and restored when the run resumes.
	State any
	// Repeat repeats a completed step: its result exists only in its process, or it is a check. Without Repeat the step
	// is adopted: its State is restored, and Adopted is called.
	Repeat bool
	// Adopted finds, by tag, token or State, what later steps need of a step that is not repeated; nil for nothing.
	Adopted func(ctx context.Context, s *Scope) error
}

// Recording is whether a step waits for the journal's earlier records to be durable. By default it does.
type Recording struct {
	// NoWait does not wait: only for steps that release something.
	NoWait bool
	// MayBeLate stops waiting after a while: only for steps whose effects can be found without the journal.
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

// deadlineError names the step and its deadline, to show what did not answer.
func deadlineError(err error, what string, limit time.Duration) error {
	return &failure.Error{
		Op: what, Kind: failure.KindOf(err), Hint: failure.HintOf(err),
		Err: fmt.Errorf("not done within %s: %w", limit, err),
	}
}
