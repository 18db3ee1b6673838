package ui

import (
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
)

// maxQueued bounds what a stopped terminal can make the queue hold; more than that is dropped and counted.
const maxQueued = 10_000

// item is an event, or text to be printed as it is.
type item struct {
	event phase.Event
	at    time.Time // of the monotonic clock
	text  []byte
}

type stepKey struct{ phase, step string }

// queue is between a run and the goroutine that writes. Putting never blocks.
type queue struct {
	mu      sync.Mutex
	items   []item
	latest  map[stepKey]int // index of the step's queued progress that nothing of the step follows
	dropped int
	wake    chan struct{}
}

func newQueue() *queue {
	return &queue{latest: map[stepKey]int{}, wake: make(chan struct{}, 1)}
}

func (q *queue) put(it item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	key := stepKey{it.event.Phase, it.event.Step}
	if it.event.Type == phase.Progress {
		if i, ok := q.latest[key]; ok {
			q.items[i] = it
			return
		}
		q.latest[key] = len(q.items)
	} else {
		delete(q.latest, key)
	}
	if len(q.items) >= maxQueued {
		delete(q.latest, key)
		q.dropped++
		return
	}
	q.items = append(q.items, it)
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take empties the queue and returns what was in it and how many items were dropped since the last take.
func (q *queue) take() (items []item, dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, dropped = q.items, q.dropped
	q.items, q.dropped = nil, 0
	clear(q.latest)
	return items, dropped
}
