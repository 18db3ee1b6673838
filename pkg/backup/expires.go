package backup

import (
	"time"

	"github.com/tisnap/tisnap/pkg/journal"
)

// clockMargin allows for the difference between the clocks of a run and of the reader of its journal: S3 refuses
// requests from clocks more than 15 minutes off, so they are at most twice that apart. It also covers the watchdog's
// margin and grace, and the last renewals, which take seconds.
const clockMargin = 30 * time.Minute

// heldUntil is when everything that a dead run held on stores has expired, whatever became of the stores, by the latest
// of its holds: a store releases one lease after the last renewal, or when it exits, and a hold is not renewed beyond
// its budget. A suspended run renews nothing when it wakes up, as another run may have its lock by then. If the run
// never held, it is in the past.
func heldUntil(holds []journal.Hold) time.Time {
	latest := time.Unix(0, 0)
	for _, h := range holds {
		if h.LeasesAt.IsZero() { // by a version that did not record the leases
			latest = later(latest, h.Began.Add(journalAge+clockMargin))
			continue
		}
		latest = later(latest, h.LeasesAt.Add(longestHold(h.Leases)+clockMargin))
	}
	return latest
}

// maxSeconds fits into a time.Duration.
const maxSeconds = 1e9

// longestHold is the time from the record to the end of the last lease. The step's deadline, slightly more than the
// budget, bounds the time until the first pause, at which the budget begins.
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
