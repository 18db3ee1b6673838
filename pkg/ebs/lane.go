package ebs

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// How a lane gives way to others in the account: a throttle soon after another takes a part of its rate, at most
// once a second, and each answer gives a little back. One throttle alone, as when calls arrive late and all at
// once, only makes it wait for a token.
const (
	slowDown    = 0.7
	speedUp     = 0.1 // calls a second, for each answer
	slowest     = 0.5 // calls a second
	slowDownGap = time.Second
	soonAfter   = 5 * time.Second
)

// lane is the queue before one of EC2's token buckets. Calls leave it by priority and then in the order in
// which they came. It is safe for concurrent use.
type lane struct {
	clock      Clock
	size, most float64 // of the bucket, and the refill a second when nobody else calls

	mu     sync.Mutex
	tokens float64
	rate   float64
	at     time.Time // when tokens was right
	slowed time.Time // when the rate was last lowered, or a throttle came alone
	queue  []*place
	next   uint64
}

// place is a call's place in a lane. It keeps its number when a throttled call comes back, which is then first.
type place struct {
	priority priority
	number   uint64
	wake     chan struct{} // told when the place has become the first
}

func newLane(clock Clock, size, rate float64) *lane {
	return &lane{clock: clock, size: size, most: rate, tokens: size, rate: rate, at: clock.Now()}
}

// place takes a number.
func (l *lane) place(p priority) *place {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return &place{priority: p, number: l.next, wake: make(chan struct{}, 1)}
}

// turn waits until p may send one call. It returns ctx's error if that comes first, and at once if ctx will
// certainly end before: waiting for it would only make a cluster's hold longer.
func (l *lane) turn(ctx context.Context, p *place) error {
	if l == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if least := l.join(p); !enough(ctx, l.clock, least) {
		l.leave(p)
		return context.DeadlineExceeded
	}
	defer l.leave(p)
	for {
		wait, first := l.take(p)
		switch {
		case first && wait == 0:
			return ctx.Err()
		case first:
			if err := l.clock.Sleep(ctx, wait); err != nil {
				return err
			}
		default:
			select {
			case <-p.wake:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// join puts p into the queue and says how long it waits at least.
func (l *lane) join(p *place) (least time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, _ := slices.BinarySearchFunc(l.queue, p, func(a, b *place) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.number, b.number))
	})
	l.queue = slices.Insert(l.queue, at, p)
	l.refill()
	missing := float64(at+1) - l.tokens
	return max(0, time.Duration(missing/l.most*float64(time.Second)))
}

// take takes a token if p is the first and there is one; else wait says when there will be.
func (l *lane) take(p *place) (wait time.Duration, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue[0] != p {
		return 0, false
	}
	l.refill()
	if l.tokens >= 1 {
		l.tokens--
		return 0, true
	}
	// A millisecond more than needed, so that rounding never makes it come too early.
	return time.Duration((1-l.tokens)/l.rate*float64(time.Second)) + time.Millisecond, true
}

// leave takes p out of the queue, and wakes the one that is first now.
func (l *lane) leave(p *place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := slices.Index(l.queue, p); at >= 0 {
		l.queue = slices.Delete(l.queue, at, at+1)
	}
	if len(l.queue) > 0 {
		select {
		case l.queue[0].wake <- struct{}{}:
		default: // told already
		}
	}
}

func (l *lane) refill() {
	now := l.clock.Now()
	l.tokens = min(l.size, l.tokens+max(0, now.Sub(l.at).Seconds())*l.rate)
	l.at = now
}

// answered is told of each answer: EC2's bucket was empty, or not.
func (l *lane) answered(throttle bool) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refill()
	if !throttle {
		l.rate = min(l.most, l.rate+speedUp)
		return
	}
	l.tokens = 0 // EC2's bucket is empty, whatever was in ours
	since := l.at.Sub(l.slowed)
	if since < slowDownGap {
		return
	}
	if since < soonAfter {
		l.rate = max(slowest, l.rate*slowDown)
	}
	l.slowed = l.at
}
