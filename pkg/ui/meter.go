package ui

import (
	"math"
	"time"
)

const (
	// smoothing is how far back the rate counts: EBS reports a snapshot's progress in jumps some 10 s apart.
	smoothing = 30 * time.Second
	// sampling is the shortest time between two samples, so that a burst of small advances does not count as a rate.
	sampling = 500 * time.Millisecond
	// warmUp is how long no rate is shown: the first advances say little.
	warmUp = 2 * time.Second
)

// meter estimates a rate by exponential smoothing, corrected for the time before the first sample.
type meter struct {
	begun, last time.Time
	done        int64   // at last
	smoothed    float64 // biased towards 0 until smoothing has passed
}

// observe notes that done was reached at that time. A done that goes down starts again.
func (m *meter) observe(done int64, at time.Time) {
	if m.begun.IsZero() || done < m.done {
		*m = meter{begun: at, last: at, done: done}
		return
	}
	passed := at.Sub(m.last)
	if passed < sampling {
		return
	}
	rate := float64(done-m.done) / passed.Seconds()
	m.smoothed += (rate - m.smoothed) * (1 - math.Exp(-passed.Seconds()/smoothing.Seconds()))
	m.last, m.done = at, done
}

// rate is per second; 0 while it is not known.
func (m *meter) rate() float64 {
	passed := m.last.Sub(m.begun)
	if passed < warmUp {
		return 0
	}
	return m.smoothed / (1 - math.Exp(-passed.Seconds()/smoothing.Seconds()))
}

// maxETA is where an estimate stops meaning anything.
const maxETA = 100 * time.Hour

// eta is the time that is left to total at the present rate, and whether it is known.
func (m *meter) eta(done, total int64) (left time.Duration, known bool) {
	rate := m.rate()
	if rate <= 0 || total <= 0 || done > total {
		return 0, false
	}
	seconds := float64(total-done) / rate
	if seconds > maxETA.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}
