package wait

import (
	"context"
	"time"
)

// earliest is how long before ctx's deadline ForDeadline takes it for passed. The other side counts the same time by
// its own clock, from a moment later on: the difference is a timer's, of microseconds, or on a busy machine of
// milliseconds.
const earliest = 100 * time.Millisecond

// ForDeadline is for a call whose other side or transport said that ctx's deadline has passed: ctx's own timer may run
// a moment later. It waits for that, so that ctx.Err says it as well. If the deadline is more than 100 ms away, or
// there is none, it was another one, and ForDeadline returns at once.
func ForDeadline(ctx context.Context) {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < earliest {
		<-ctx.Done()
	}
}

// For waits for d, and returns nil, or until ctx ends, and returns its cause. If ctx has ended already, it
// returns the cause at once, however short d is.
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
