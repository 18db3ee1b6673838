package wait

import (
	"context"
	"time"
)

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
