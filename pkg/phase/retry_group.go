package phase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/failure"
)

// stepAwaitAttempt is the name of the wait between two attempts.
const stepAwaitAttempt = "again"

// RetryGroup is a group of consecutive steps that is attempted more than once: after a failure all of it is undone,
// Ready waits, and it restarts from scratch.
type RetryGroup struct {
	// From and To name the group's first and last step.
	From, To string
	// Attempts is the maximum number of attempts, including the first.
	Attempts int
	// Worth reports whether another attempt may succeed after the failure of a step.
	Worth func(step string, err error) bool
	// Phase is the phase of the wait.
	Phase string
	// Ready returns when another attempt is worthwhile; its error ends the run. It changes nothing.
	Ready func(ctx context.Context, s *Scope) error
	// Deadline bounds Ready.
	Deadline time.Duration
}

// Attempt is a failed attempt.
type Attempt struct {
	Number int       `json:"number"`
	At     time.Time `json:"at"`
	Step   string    `json:"step"`  // that failed
	Error  string    `json:"error"` // why, naming what it failed on
}

// FailedAttempts lists the attempts at Config.Group that failed; valid after Run returned.
func (e *Engine) FailedAttempts() []Attempt { return e.attempts }

// attempt returns the current attempt's number for a step in the group; 0 outside of it and for the first.
func (e *Engine) attempt(steps []Step, i int) int {
	if first, last := e.group(steps); i < first || i > last || len(e.attempts) == 0 {
		return 0
	}
	return len(e.attempts) + 1
}

// group returns the indexes of the retry group's first and last step; -1 and -2 if there is none.
func (e *Engine) group(steps []Step) (first, last int) {
	first, last = -1, -2
	if e.cfg.Group == nil {
		return first, last
	}
	for i := range steps {
		if steps[i].Name == e.cfg.Group.From {
			first = i
		}
		if steps[i].Name == e.cfg.Group.To {
			last = i
		}
	}
	return first, last
}

// hasty returns the steps whose records are tried only once; see Config.JournalPatience.
func (e *Engine) hasty(steps []Step) map[string]bool {
	first, last := e.group(steps)
	names := map[string]bool{}
	for i := first; i >= 0 && i < last; i++ {
		names[steps[i].Name] = true
	}
	return names
}

// nextAttempt decides what follows the failure of step i: nil if the group restarts at the returned index, after its
// steps were undone. If one cannot be undone, there is no further attempt.
func (e *Engine) nextAttempt(ctx context.Context, steps []Step, i int, err error) (int, error) {
	first, last := e.group(steps)
	if i < first || i > last {
		return i, err
	}
	rule := e.cfg.Group
	e.attempts = append(e.attempts,
		Attempt{
			Number: len(e.attempts) + 1, Step: steps[i].Name, At: time.Now().UTC(), Error: failure.Redact(err.Error()),
		})
	numbered := failure.Annotate(err, fmt.Sprintf("attempt %d of %d", len(e.attempts), rule.Attempts), "")
	var panicked *failure.PanicError
	if ctx.Err() != nil || errors.As(err, &panicked) || !rule.Worth(steps[i].Name, err) {
		return i, err
	}
	if len(e.attempts) >= rule.Attempts {
		if rule.Attempts > 1 {
			err = numbered
		}
		return i, err
	}
	s := e.scope(&steps[i])
	s.Warn("%v: undoing the attempt before the next one", numbered)
	if len(e.undoAll(ctx, steps[first:last+1])) > 0 {
		return i, err
	}
	if waitErr := e.awaitAttempt(ctx); waitErr != nil {
		return i, errors.Join(waitErr, err)
	}
	names := make([]string, 0, last-first+1)
	for j := first; j <= last; j++ {
		names = append(names, steps[j].Name)
	}
	e.writer.add(Record{Type: RecordRetryGroup, Step: steps[first].Name}, names)
	e.log.Info("attempting again", zap.Int("attempt", len(e.attempts)+1))
	return first, nil
}

// awaitAttempt waits, in its own phase, until another attempt is worthwhile.
func (e *Engine) awaitAttempt(ctx context.Context) error {
	rule := e.cfg.Group
	step := &Step{Phase: rule.Phase, Name: stepAwaitAttempt, Deadline: rule.Deadline, ReadOnly: true, Do: rule.Ready}
	span := e.openPhase(ctx, step, len(e.attempts)+1)
	s := e.scope(step)
	s.emit(StepStarted, "")
	err := within(span.In(ctx), "wait for another attempt", rule.Deadline,
		func(ctx context.Context) error { return e.call(ctx, step.Do, s) })
	if err != nil && ctx.Err() != nil {
		err = failure.Annotate(context.Cause(ctx), "wait for another attempt", "") // not whatever it was waiting for
	}
	e.finish(step, s, err)
	e.closePhase(step.Phase, err)
	return err
}

// group names the steps of a RecordRetryGroup.
func (r *Record) group() []string {
	var names []string
	if json.Unmarshal(r.Data, &names) != nil {
		return nil
	}
	return names
}
