package ebsdirect

import (
	"context"
	"math"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
)

// How a rate changes. It is halved when AWS throttles, goes back within a second to just below the rate at which calls
// were answered before (the knee), and from there up slowly at first and then ever faster: so it is near a limit that
// stays nearly always, is throttled a few times a minute at most, and finds a raised one in a quarter of an hour.
const (
	headroom = 0.99                   // of a limit that is known: what clocks may differ by
	kneeOf   = 0.97                   // of the rate of answers
	memory   = 200 * time.Millisecond // of the rate of answers
	fastWay  = 0.5                    // of the knee, a second
	slowWay  = 0.001                  // of the knee, a second, and of the ceiling more with each
	faster   = 300 * time.Second      // since it was throttled
	settle   = 200 * time.Millisecond // in which calls sent before the rate was halved still use up the limit
	lowest   = 0.01                   // of the ceiling: the lowest rate
	catchUp  = 50 * time.Millisecond  // of calls that came late may follow at once
)

// limiter spaces the calls of one API, on one snapshot or in the account. Time is given, so that it has no clock.
type limiter struct {
	ceiling, rate float64 // calls per second
	knee          float64
	answers       float64   // a second, that were not throttled: a moving average
	heard         time.Time // of the last of them
	changed       time.Time // when rate was last brought up to date
	cut           time.Time // when rate was last halved
	next          time.Time // when the next call may be sent
}

func newLimiter(limit float64, now time.Time) *limiter {
	ceiling := limit * headroom
	return &limiter{
		ceiling: ceiling, rate: ceiling, knee: ceiling, answers: ceiling, heard: now, changed: now, next: now,
	}
}

// reserve is when a call that wants to be sent now may be sent.
func (l *limiter) reserve(now time.Time) time.Time {
	l.grow(now)
	at := latest(l.next, now.Add(-catchUp))
	l.next = at.Add(time.Duration(float64(time.Second) / l.rate))
	return latest(at, now)
}

// answered notes a call that was not throttled.
func (l *limiter) answered(now time.Time) {
	l.answers = l.recent(now) + 1/memory.Seconds()
	l.heard = now
}

func (l *limiter) recent(now time.Time) float64 {
	return l.answers * math.Exp(-now.Sub(l.heard).Seconds()/memory.Seconds())
}

// throttled lowers the rate because a call was throttled that was sent at that time. Calls that were sent before the
// rate was last halved, or right after, carry no news.
func (l *limiter) throttled(now, sent time.Time) {
	if sent.Before(l.cut.Add(settle)) {
		return
	}
	l.grow(now)
	l.knee = max(l.rate/2, min(l.rate, l.recent(now))) * kneeOf
	l.rate = max(l.rate/2, l.ceiling*lowest)
	l.cut = now
}

// grow raises the rate by the time that has passed.
func (l *limiter) grow(now time.Time) {
	passed := now.Sub(l.changed).Seconds()
	l.changed = now
	if l.rate < l.knee {
		back := min(passed, (l.knee-l.rate)/(fastWay*l.knee))
		l.rate += back * fastWay * l.knee
		passed -= back
	}
	since := now.Sub(l.cut).Seconds() - passed/2
	l.rate = min(l.ceiling, l.rate+passed*slowWay*(l.knee+l.ceiling*since/faster.Seconds()))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lane lets calls pass one after the other, each at the limiter's time. A call that waits holds the turn, so that a
// rate that is lowered holds for all calls behind it.
type lane struct {
	turn    chan struct{} // has one element while no call waits at the limiter
	limiter *limiter
}

func newLane(limit float64, now time.Time) *lane {
	l := &lane{turn: make(chan struct{}, 1), limiter: newLimiter(limit, now)}
	l.turn <- struct{}{}
	return l
}

// pass waits for a call's time. It returns ctx's error if that ends before.
func (g *governor) pass(ctx context.Context, l *lane) error {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.turn <- struct{}{} }()
	g.mu.Lock()
	now := g.clock.Now()
	at := l.limiter.reserve(now)
	g.mu.Unlock()
	return sleep(ctx, g.clock, at.Sub(now))
}

func sleep(ctx context.Context, clock ebs.Clock, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	return clock.Sleep(ctx, d)
}
