package backup

import (
	"time"

	"github.com/tisnap/tisnap/pkg/journal"
)

// clockMargin allows for the clocks of two machines, that of a run and that of who reads its journal: S3 refuses a
// request whose clock is more than 15 minutes off, so no two of them are further apart. What takes seconds is within it
// too: the watchdog's margin and grace, and the last renewals.
const clockMargin = 30 * time.Minute

// heldUntil is when all that a dead run held on stores has run out by itself, whatever became of the stores, by the
// latest of its holds: a store lets go one lease after the last renewal, or when it ends, and a hold is not renewed any
// more once its budget is used up. A run that is suspended, and not dead, renews nothing when it wakes up, as its lock
// may be another run's by then. It is before now if the run never held.
func heldUntil(holds []journal.Hold) time.Time {
	latest := time.Unix(0, 0)
	for _, h := range holds {
		if h.LeasesAt.IsZero() { // of a version that did not write the leases down
			latest = later(latest, h.Began.Add(journalAge+clockMargin))
			continue
		}
		latest = later(latest, h.LeasesAt.Add(longestHold(h.Leases)+clockMargin))
	}
	return latest
}

// maxSeconds fits into a time.Duration.
const maxSeconds = 1e9

// longestHold is the time from the record to the end of the last lease. The step's deadline, which is little more than
// the budget, bounds the time before the first pause; the budget begins with that one.
func longestHold(l journal.Leases) time.Duration {
	seconds := 2 * (l.MaxHoldSeconds + l.LeaseSeconds)
	return time.Duration(min(seconds, maxSeconds) * float64(time.Second))
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
