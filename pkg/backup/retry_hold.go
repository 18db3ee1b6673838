package backup

import (
	"errors"
	"slices"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
)

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
	holding := []string{journal.StepConnect, journal.StepHold, journal.StepHoldGC, journal.StepBackupTS}
	return kind != failure.Held && slices.Contains(holding, step) &&
		(kind == failure.Unknown || kind == failure.Limited) && !failure.Permanent(err)
}
