package ebs

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// How a queue yields to other users of the account: a throttle soon after another lowers its rate, at most once per
// second, and each answer raises it a little. A single throttle, for example after a burst of delayed calls, only makes
// it wait for a token.
const (
	slowDown    = 0.7
	speedUp     = 0.1 // calls per second, for each answer
	minRate     = 0.5 // calls per second
	slowDownGap = time.Second
	soonAfter   = 5 * time.Second
)

// callQueue is the queue for one of EC2's token buckets. Calls leave it by priority, then in order of arrival. It is
// safe for concurrent use.
type callQueue struct {
	clock         Clock
	size, maxRate float64 // the bucket's size, and its refill per second without other callers

	mu      sync.Mutex
	tokens  float64
	rate    float64
	at      time.Time // when tokens was right
	slowed  time.Time // when the rate was last lowered, or a throttle came alone
	waiting []*place
	next    uint64
}

// place is a call's place in a queue. A throttled call that comes back keeps its number, and is then first.
type place struct {
	priority priority
	number   uint64
	wake     chan struct{} // has a value when the place has become the first
}

func newCallQueue(clock Clock, size, rate float64) *callQueue {
	return &callQueue{clock: clock, size: size, maxRate: rate, tokens: size, rate: rate, at: clock.Now()}
}

// place takes a number.
func (q *callQueue) place(p priority) *place {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next++
	return &place{priority: p, number: q.next, wake: make(chan struct{}, 1)}
}

// turn waits until p may send one call. It returns ctx's error if ctx ends first, and at once if ctx will certainly end
// before: waiting would only lengthen a cluster's hold.
func (q *callQueue) turn(ctx context.Context, p *place) error {
	if q == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if minWait := q.join(p); !enough(ctx, q.clock, minWait) {
		q.leave(p)
		return context.DeadlineExceeded
	}
	defer q.leave(p)
	for {
		wait, first := q.take(p)
		switch {
		case first && wait == 0:
			return ctx.Err()
		case first:
			if err := q.clock.Sleep(ctx, wait); err != nil {
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

// join puts p into the queue and returns its minimum wait.
func (q *callQueue) join(p *place) (minWait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	at, _ := slices.BinarySearchFunc(q.waiting, p, func(a, b *place) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.number, b.number))
	})
	q.waiting = slices.Insert(q.waiting, at, p)
	q.refill()
	missing := float64(at+1) - q.tokens
	return max(0, time.Duration(missing/q.maxRate*float64(time.Second)))
}

// take takes a token if p is first and there is one; otherwise wait is when there will be.
func (q *callQueue) take(p *place) (wait time.Duration, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting[0] != p {
		return 0, false
	}
	q.refill()
	if q.tokens >= 1 {
		q.tokens--
		return 0, true
	}
	// A millisecond more than needed, so that rounding never makes it too early.
	return time.Duration((1-q.tokens)/q.rate*float64(time.Second)) + time.Millisecond, true
}

// leave removes p from the queue, and wakes the new first.
func (q *callQueue) leave(p *place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := slices.Index(q.waiting, p); at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	if len(q.waiting) > 0 {
		select {
		case q.waiting[0].wake <- struct{}{}:
		default: // woken already
		}
	}
}

func (q *callQueue) refill() {
	now := q.clock.Now()
	q.tokens = min(q.size, q.tokens+max(0, now.Sub(q.at).Seconds())*q.rate)
	q.at = now
}

// answered records whether an answer showed EC2's bucket to be empty.
func (q *callQueue) answered(throttle bool) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.refill()
	if !throttle {
		q.rate = min(q.maxRate, q.rate+speedUp)
		return
	}
	q.tokens = 0 // EC2's bucket is empty, whatever was in ours
	since := q.at.Sub(q.slowed)
	if since < slowDownGap {
		return
	}
	if since < soonAfter {
		q.rate = max(minRate, q.rate*slowDown)
	}
	q.slowed = q.at
}
