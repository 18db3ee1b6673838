package drill

import (
	"errors"
	"fmt"

	"github.com/tisnap/tisnap/pkg/drill/checks"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/runner"
)

// State is how a part of a drill ended.
type State string

// The states. Interrupted is of a restore that was cancelled; Gone and Left are of the removal.
const (
	NotRun      State = "not-run"
	Passed      State = "passed"
	Failed      State = "failed"
	Interrupted State = "interrupted"
	TimedOut    State = "timed-out"
	NotMade     State = "not-made"
	Gone        State = "clean"
	Left        State = "left"
)

// Result is how a drill went, as far as it got, also on error.
type Result struct {
	runner.Outcome
	Restore, Checks, TearDown State
	Planned                   Planned
	Found                     *checks.Result // nil before the checks
	Warnings                  []string
	// Left is what could not be removed, and why; "" if nothing was left.
	Left string
}

// states of a drill that has done nothing.
func newResult() Result { return Result{Restore: NotRun, Checks: NotRun, TearDown: NotRun} }

// stateOf translates the outcome of all checks together.
func stateOf(o checks.Outcome) State {
	switch o {
	case checks.Passed:
		return Passed
	case checks.TimedOut:
		return TimedOut
	case checks.NotMade:
		return NotMade
	default:
		return Failed
	}
}

// conclude returns the error whose kind is the most serious of the three results: the checks' first, then what is left.
// Of a drill that has lost its lock only failed checks count: what it made is up to the process that has the lock.
func (r *Result) conclude(o *Options, err error) error {
	var failed *failure.Error
	switch {
	case err != nil && r.LostLock && r.Checks != Failed:
		return err
	case r.Checks == Failed || r.Checks == NotMade:
		failed = failure.New(failure.Unproven, "drill", string(o.Backup),
			"it was restored, and its checks did not pass: %s", r.whyNot(err)).
			WithHint("see what was checked: tisnap drill report %s", o.Run)
	case r.TearDown == Left && err != nil:
		failed = failure.New(failure.Leaked, "drill", string(o.Backup), "what it made is still there: %s", r.Left)
	default:
		return err
	}
	if r.TearDown == Left {
		failed = failed.WithHint("remove what is left: tisnap drill clean %s", o.Run)
	}
	return errors.Join(failed)
}

// whyNot summarizes the checks that did not pass.
func (r *Result) whyNot(err error) string {
	if r.Found == nil {
		return fmt.Sprintf("they could not be made: %v", err)
	}
	if r.Found.Why != "" {
		return r.Found.Why
	}
	var why []string
	for _, c := range r.Found.Checks {
		if c.Outcome == checks.Failed || c.Outcome == checks.NotMade {
			why = append(why, c.Name+": "+c.Why)
		}
	}
	return failure.List(why)
}
