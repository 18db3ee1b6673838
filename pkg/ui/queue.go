package ui

import (
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
)

// maxQueued bounds the queue behind a stopped terminal; anything beyond is dropped and counted.
const maxQueued = 10_000

// item is an event, or text to print as is.
type item struct {
	event phase.Event
	at    time.Time // of the monotonic clock
	text  []byte
}

type stepKey struct{ phase, step string }

// queue connects a run to the writing goroutine. Putting never blocks.
type queue struct {
	mu      sync.Mutex
	items   []item
	latest  map[stepKey]int // index of each step's queued progress, if it is the step's last item
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

// take empties the queue and returns its items and how many were dropped since the last take.
func (q *queue) take() (items []item, dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, dropped = q.items, q.dropped
	q.items, q.dropped = nil, 0
	clear(q.latest)
	return items, dropped
}
