package wait

import (
	"context"
	"time"
)

// earliest is how long before ctx's deadline ForDeadline treats it as passed. The other side's clock starts a moment
// later: the difference is microseconds, or milliseconds on a busy machine.
const earliest = 100 * time.Millisecond

// ForDeadline is for a call whose peer or transport reports that ctx's deadline has passed, a moment before ctx's own
// timer fires. It waits for that, so that ctx.Err is set, too. It returns at once if the deadline is more than 100 ms
// away, or if there is none: then it was another deadline.
func ForDeadline(ctx context.Context) {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < earliest {
		<-ctx.Done()
	}
}

// For waits for d and returns nil, or returns ctx's cause once ctx ends: at once if it has ended, however short d is.
func For(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Younger reports whether at is less than age before now by both clocks: the monotonic one does not advance while a
// machine is suspended.
func Younger(at time.Time, age time.Duration, now time.Time) bool {
	return now.Sub(at) < age && now.Round(0).Sub(at.Round(0)) < age
}
