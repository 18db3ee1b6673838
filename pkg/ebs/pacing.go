package ebs

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// EC2 gives each account and region a bucket of 100 calls, refilled by 5 a second, for each of the APIs
// below. The rest is left to the CSI driver and others who share the account's buckets.
const (
	paceBurst  = 90
	paceRefill = 4.5
)

// pacing keeps this process below EC2's token buckets, one limiter an API.
type pacing struct {
	createSnapshots, deleteSnapshot, createVolume, deleteVolume *rate.Limiter
}

func newPacing(now time.Time) pacing {
	limiter := func() *rate.Limiter {
		l := rate.NewLimiter(paceRefill, paceBurst)
		l.SetBurstAt(now, paceBurst) // the clock may be virtual
		return l
	}
	return pacing{
		createSnapshots: limiter(), deleteSnapshot: limiter(),
		createVolume: limiter(), deleteVolume: limiter(),
	}
}

// turn waits until the limiter lets one call go. It returns ctx's error if that comes first.
func (c *Client) turn(ctx context.Context, limiter *rate.Limiter) error {
	if limiter == nil {
		return ctx.Err()
	}
	now := c.clock.Now()
	place := limiter.ReserveN(now, 1)
	delay := place.DelayFrom(now)
	if delay == 0 {
		return ctx.Err()
	}
	if err := c.clock.Sleep(ctx, delay); err != nil {
		place.CancelAt(c.clock.Now())
		return err
	}
	return nil
}
