package backup

import (
	"errors"
	"slices"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
)

// holdGroup makes everything from the first connection to the release one group: if the hold breaks, all of it is
// released, its snapshots are deleted, and it is held again, a bounded number of times.
func (r *run) holdGroup() *phase.RetryGroup {
	from := journal.StepConnect
	switch { // of the time right before the hold, so that few regions change in between
	case r.early.preventing():
		from = journal.StepReadReplicas
	case r.marks.wanted():
		from = journal.StepMarks
	}
	return &phase.RetryGroup{
		From: from, To: journal.StepRelease, Attempts: r.opts.HoldAttempts, Worth: worthAnotherHold,
		Phase: phaseHoldAgain, Ready: r.awaitSteady, Deadline: r.opts.SteadyTimeout,
	}
}

// worthAnotherHold reports whether to hold again: a hold that broke, or could not be taken because a store or PD
// did not answer, as in a rolling restart. One that took too long is not retried, as its budget is a promise; what
// EC2 refuses would be refused again.
func worthAnotherHold(step string, err error) bool {
	switch {
	case errors.Is(err, hold.ErrBudget):
		return false
	case errors.Is(err, hold.ErrBroken):
		return true
	}
	// The kind alone, not failure.Transient: one store's answer may end the calls to the others, which are cancelled.
	kind := failure.KindOf(err)
	return kind != failure.Held && slices.Contains([]string{journal.StepConnect, journal.StepHold, journal.StepHoldGC, journal.StepBackupTS}, step) &&
		(kind == failure.Unknown || kind == failure.Limited) && !failure.Permanent(err)
}
