package sweep

import "time"

// The rules of a concurrency window.
const (
	firstWindow = 2
	// maxWindow is how many streams TiKV allows on one connection (grpc-concurrent-stream).
	maxWindow = 1024
	// minEpoch is how many answers a decision needs at least: the cost of regions differs a hundredfold.
	minEpoch = 16
	// maxSlowdown is how much longer than on an idle store calls may take before there are too many of them: at
	// twice the time half of the calls only wait for the others.
	maxSlowdown = 2
	// minRelief is how much shorter calls have to become by a smaller window, or it was not the cause.
	minRelief = 0.85
)

// window is how many calls one store gets at once, found by the store's own answers: it doubles until the calls
// take longer for their number, and from then on grows by one and shrinks by a share. It is not safe for
// concurrent use.
type window struct {
	size     float64
	doubling bool
	idle     time.Duration // mean of the fastest epoch: what a call takes without the others
	cut      time.Time     // of the last decrease

	// An epoch is made of the calls sent since its begin: those before met another number of calls.
	begin   time.Time
	answers int
	sum     time.Duration

	slow   bool          // the epoch before was too slow as well
	before time.Duration // mean before a decrease for slowness, until it is known whether that helped
	from   float64       // size before it
}

func newWindow() *window { return &window{size: firstWindow, doubling: true} }

// limit is how many calls may be under way.
func (w *window) limit() int { return int(w.size) }

// answered notes that a call was done.
func (w *window) answered(sent, now time.Time) {
	if sent.Before(w.begin) {
		return
	}
	w.answers++
	w.sum += now.Sub(sent)
	if w.answers < max(minEpoch, w.limit()) {
		return
	}
	mean := w.sum / time.Duration(w.answers)
	w.open(now)
	w.decide(mean, now)
}

func (w *window) open(now time.Time) { w.begin, w.answers, w.sum = now, 0, 0 }

func (w *window) decide(mean time.Duration, now time.Time) {
	if before := w.before; before > 0 {
		w.before = 0
		if float64(mean) > minRelief*float64(before) {
			// Fewer calls did not make them faster: the regions cost more now, or the store does other work.
			w.size, w.idle, w.slow = w.from, mean, false
			return
		}
	}
	if w.idle == 0 || mean < w.idle {
		w.idle = mean
	}
	slowBefore := w.slow
	w.slow = mean > maxSlowdown*w.idle
	switch {
	case w.slow && slowBefore:
		w.before, w.from = mean, w.size
		w.shrink(0.7, now)
	case w.slow: // wait for the next epoch: this one may have seen half of a change
	case w.doubling:
		w.size = min(2*w.size, maxWindow)
	default:
		w.size = min(w.size+1, maxWindow)
	}
}

func (w *window) shrink(by float64, now time.Time) {
	w.size, w.doubling, w.slow, w.cut = max(1, by*w.size), false, false, now
	w.open(now)
}

// refused notes that the store was too busy for a call sent then. Of the calls sent before the last decrease it
// is old news.
func (w *window) refused(sent, now time.Time) {
	if sent.Before(w.cut) {
		return
	}
	w.before = 0
	w.shrink(0.5, now)
}

// unanswered notes that the store did not answer a call sent then: one call at a time finds out when it does again.
func (w *window) unanswered(sent, now time.Time) {
	if sent.Before(w.cut) {
		return
	}
	w.before, w.idle = 0, 0
	w.shrink(0, now)
	w.doubling = true
}
