package resolve

import (
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// The waits of a lane whose store is busy or does not answer.
const (
	leastRest = 50 * time.Millisecond
	busyRest  = 500 * time.Millisecond // at most, of a busy store that does not ask for more
	mostRest  = 2 * time.Second
)

// task is one region that a store is to be called for.
type task struct {
	region cluster.Region
	tries  int           // that failed
	limit  time.Duration // of the next call
	why    error         // of the last try
}

// lane is what waits for one store and how many calls it gets at once. A lane knows nothing of the others, so
// that a slow store holds up its own regions alone. It is not safe for concurrent use.
type lane struct {
	store  cluster.StoreID
	window *window
	queue  []task // in order of coming
	open   int    // calls under way
	rest   time.Duration
	until  time.Time // rests until then
	broken bool      // the last answer was none: the store is not there
}

func newLane(store cluster.StoreID) *lane { return &lane{store: store, window: newWindow()} }

func (l *lane) add(t task) { l.queue = append(l.queue, t) }

// next takes a task if there is one and the store may get another call now.
func (l *lane) next(now time.Time) (task, bool) {
	if len(l.queue) == 0 || l.open >= l.window.limit() || now.Before(l.until) {
		return task{}, false
	}
	t := l.queue[0]
	l.queue[0] = task{}
	if l.queue = l.queue[1:]; len(l.queue) == 0 {
		l.queue = nil
	}
	l.open++
	return t, true
}

// answered notes a call that the store carried out.
func (l *lane) answered(sent, now time.Time) {
	l.open--
	l.rest, l.broken = 0, false
	l.window.answered(sent, now)
}

// wrong notes a call that the store refused for a reason of the region's own: it says nothing about the load.
func (l *lane) wrong() {
	l.open--
	l.broken = false
}

// busy notes that the store was too busy for a call, and wants to be left alone for a while.
func (l *lane) busy(sent, now time.Time, asked time.Duration) {
	l.open--
	l.broken = false
	l.window.refused(sent, now)
	l.pause(now, busyRest, asked)
}

// broke notes that the store did not answer.
func (l *lane) broke(sent, now time.Time) {
	l.open--
	l.broken = true
	l.window.broke(sent, now)
	l.pause(now, mostRest, 0)
}

// pause makes the lane rest, each time twice as long until an answer comes; answers to calls that were sent
// before the rest began do not make it longer.
func (l *lane) pause(now time.Time, most, asked time.Duration) {
	if now.Before(l.until) {
		return
	}
	l.rest = min(max(leastRest, 2*l.rest), most)
	l.until = now.Add(max(l.rest, min(asked, mostRest)))
}

// drain takes all that waits: the store is not there, and its regions may have gone elsewhere.
func (l *lane) drain() []task {
	waiting := l.queue
	l.queue = nil
	return waiting
}
