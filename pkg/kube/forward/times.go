package forward

import (
	"slices"
	"sync"
	"time"
)

// Forwarded is what went through a Forwarder.
type Forwarded struct {
	// Pods were reached, Opened times in all: more than Pods if a connection broke and was opened again.
	Pods, Opened int
	// MaxOpen is how long the slowest opening took.
	MaxOpen time.Duration
	// RoundTrip is the median way to a pod's node and back through the API server, and MaxRoundTrip the longest: each
	// call to PD or to a store takes so much longer than from beside it. 0 if none was measured.
	RoundTrip, MaxRoundTrip time.Duration
	// When each of them was opened.
	When []time.Time
}

// maxTrips bounds the round trips that are kept: the last ones.
const maxTrips = 4096

type forwardTimes struct {
	mu   sync.Mutex
	sum  Forwarded
	last []time.Duration // round trips
	next int             // of last, once it is full
}

// open times an opening until the result is called.
func (t *forwardTimes) open() func(again bool) {
	begin := time.Now()
	return func(again bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.sum.Opened++
		if !again {
			t.sum.Pods++
		}
		t.sum.When = append(t.sum.When, time.Now())
		t.sum.MaxOpen = max(t.sum.MaxOpen, time.Since(begin))
	}
}

func (t *forwardTimes) trip(took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum.MaxRoundTrip = max(t.sum.MaxRoundTrip, took)
	if len(t.last) < maxTrips {
		t.last = append(t.last, took)
		return
	}
	t.last[t.next] = took
	t.next = (t.next + 1) % maxTrips
}

// Times is what went through the forwarder so far.
func (f *Forwarder) Times() Forwarded {
	f.times.mu.Lock()
	defer f.times.mu.Unlock()
	sum := f.times.sum
	sum.When = slices.Clone(sum.When)
	if sorted := slices.Sorted(slices.Values(f.times.last)); len(sorted) > 0 {
		sum.RoundTrip = sorted[len(sorted)/2]
	}
	return sum
}
