package ebs

import (
	"context"
	"time"
)

// Clock is the time by which the adapter paces its calls and waits between attempts. The testbed's scaled clock
// implements it too.
type Clock interface {
	// Now is the present time; only differences matter.
	Now() time.Time
	// Sleep waits for d or until ctx ends, and then returns ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// RealTime returns the clock of real time.
func RealTime() Clock { return realClock{} }

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

// Real is the real duration in which d passes; the testbed's clock has it too.
func (realClock) Real(d time.Duration) time.Duration { return d }

// Sleep returns at once if ctx ends before d has passed: waiting for a certain failure only lengthens a cluster's hold.
func (c realClock) Sleep(ctx context.Context, d time.Duration) error {
	if !enough(ctx, c, d) {
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

// enough reports whether ctx may still live after d. A clock that does not know real time is believed.
func enough(ctx context.Context, clock Clock, d time.Duration) bool {
	deadline, ok := ctx.Deadline()
	if !ok {
		return true
	}
	scale, ok := clock.(interface {
		Real(d time.Duration) time.Duration
	})
	return !ok || time.Until(deadline) >= scale.Real(d)
}
