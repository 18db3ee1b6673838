package ebs

import (
	"context"
	"time"
)

// Clock is the time in which the adapter paces its calls and waits between tries.
// The testbed's scaled clock has these methods too.
type Clock interface {
	// Now is the present time; only differences matter.
	Now() time.Time
	// Sleep waits for d or until ctx ends, and then returns ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
}

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

// Sleep gives up at once if ctx ends before d has passed: waiting for a certain failure only makes a
// cluster's hold longer.
func (realClock) Sleep(ctx context.Context, d time.Duration) error {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
