package forward

import (
	"slices"
	"sync"
	"time"
)

// Forwarded has statistics of a Forwarder.
type Forwarded struct {
	// Pods is the number of pods reached, and Opened that of connections to them: more than Pods if some were reopened.
	Pods, Opened int
	// MaxOpen is how long the slowest opening took.
	MaxOpen time.Duration
	// RoundTrip is the median round trip to a pod's node through the API server, and MaxRoundTrip the longest: the
	// latency that each call to PD or a store has on top. 0 if none was measured.
	RoundTrip, MaxRoundTrip time.Duration
	// When is when each connection was opened.
	When []time.Time
}

// maxTrips is how many of the latest round trips are kept.
const maxTrips = 4096

type forwardTimes struct {
	mu   sync.Mutex
	sum  Forwarded
	last []time.Duration // round trips
	next int             // index in last to overwrite, once it is full
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

// Times returns the statistics so far.
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
