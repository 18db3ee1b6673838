package sweep

import (
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// How long a store is left alone that is busy or does not answer.
const (
	minRest     = 50 * time.Millisecond
	maxBusyRest = 500 * time.Millisecond // at most, of a busy store that does not ask for more
	maxRest     = 2 * time.Second
)

// regionCall is one region that a store is to be called for.
type regionCall struct {
	region cluster.Region
	tries  int           // that failed
	limit  time.Duration // of the next call
	why    error         // of the last try
}

// storeQueue is the calls that wait for one store, and how many the store gets at once. A queue knows nothing of
// the others, so that a slow store delays its own regions alone. It is not safe for concurrent use.
type storeQueue struct {
	store       cluster.StoreID
	window      *window
	calls       []regionCall // in order of coming
	open        int          // calls under way
	rest        time.Duration
	until       time.Time // rests until then
	unreachable bool      // the last answer was none: the store is not there
}

func newStoreQueue(store cluster.StoreID) *storeQueue {
	return &storeQueue{store: store, window: newWindow()}
}

func (q *storeQueue) add(t regionCall) { q.calls = append(q.calls, t) }

// next takes a call if there is one and the store may get another call now.
func (q *storeQueue) next(now time.Time) (regionCall, bool) {
	if len(q.calls) == 0 || q.open >= q.window.limit() || now.Before(q.until) {
		return regionCall{}, false
	}
	t := q.calls[0]
	q.calls[0] = regionCall{}
	if q.calls = q.calls[1:]; len(q.calls) == 0 {
		q.calls = nil
	}
	q.open++
	return t, true
}

// answered notes a call that the store carried out.
func (q *storeQueue) answered(sent, now time.Time) {
	q.open--
	q.rest, q.unreachable = 0, false
	q.window.answered(sent, now)
}

// refused notes a call that the store refused for a reason of the region's own: that does not depend on its load.
func (q *storeQueue) refused() {
	q.open--
	q.unreachable = false
}

// busy notes that the store was too busy for a call, and asked to be left alone for a while.
func (q *storeQueue) busy(sent, now time.Time, asked time.Duration) {
	q.open--
	q.unreachable = false
	q.window.refused(sent, now)
	q.pause(now, maxBusyRest, asked)
}

// unanswered notes that the store did not answer.
func (q *storeQueue) unanswered(sent, now time.Time) {
	q.open--
	q.unreachable = true
	q.window.unanswered(sent, now)
	q.pause(now, maxRest, 0)
}

// pause makes the queue rest, each time twice as long until an answer comes; answers to calls that were sent
// before the rest began do not make it longer.
func (q *storeQueue) pause(now time.Time, longest, asked time.Duration) {
	if now.Before(q.until) {
		return
	}
	q.rest = min(max(minRest, 2*q.rest), longest)
	q.until = now.Add(max(q.rest, min(asked, maxRest)))
}

// drain takes all that waits: the store is not there, and its regions may have gone elsewhere.
func (q *storeQueue) drain() []regionCall {
	waiting := q.calls
	q.calls = nil
	return waiting
}
