// Package timescale is the stand-ins' clock: virtual time that runs Factor times as fast as real time, so
// that hours of an EBS snapshot pass in seconds.
package timescale

import (
	"context"
	"sync/atomic"
	"time"
)

// Clock maps real to virtual time. The zero value runs at real speed. Its copies are the same clock.
type Clock struct {
	start  time.Time
	factor float64
	ahead  *atomic.Int64 // by Advance; nil for the zero value
}

// New starts a clock that agrees with real time now and runs factor times as fast; factor must be positive.
func New(factor float64) Clock {
	if factor <= 0 {
		factor = 1
	}
	return Clock{start: time.Now(), factor: factor, ahead: &atomic.Int64{}}
}

// Factor is how many virtual seconds pass in a real one.
func (c Clock) Factor() float64 {
	if c.factor == 0 {
		return 1
	}
	return c.factor
}

// Now is the virtual time.
func (c Clock) Now() time.Time {
	if c.factor == 0 || c.factor == 1 {
		return time.Now().Add(c.jumped())
	}
	return c.start.Add(time.Duration(float64(time.Since(c.start))*c.factor) + c.jumped())
}

// Advance jumps d ahead, at once. Whoever sleeps does not notice. The zero value does not jump.
func (c Clock) Advance(d time.Duration) {
	if c.ahead != nil {
		c.ahead.Add(int64(d))
	}
}

func (c Clock) jumped() time.Duration {
	if c.ahead == nil {
		return 0
	}
	return time.Duration(c.ahead.Load())
}

// Real is the real duration in which d of virtual time passes.
func (c Clock) Real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.Factor())
}

// Wall is the real time at which the clock shows t.
func (c Clock) Wall(t time.Time) time.Time {
	if c.factor == 0 || t.IsZero() {
		return t
	}
	return c.start.Add(c.Real(t.Sub(c.start) - c.jumped()))
}

// Sleep waits for d of virtual time or until ctx ends.
func (c Clock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(c.Real(d))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
