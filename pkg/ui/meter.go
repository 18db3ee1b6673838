package ui

import (
	"math"
	"time"
)

const (
	// smoothing is the rate's time constant: EBS reports a snapshot's progress in jumps about 10 s apart.
	smoothing = 30 * time.Second
	// sampling is the minimum time between two samples, so that a burst of small advances is not taken for a rate.
	sampling = 500 * time.Millisecond
	// warmUp is how long no rate is shown: the first advances are not representative.
	warmUp = 2 * time.Second
)

// meter estimates a rate by exponential smoothing, corrected for the time before the first sample.
type meter struct {
	begun, last time.Time
	done        int64   // at last
	smoothed    float64 // biased towards 0 until smoothing has passed
}

// observe records that done was reached at that time. A decreasing done restarts the meter.
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

// rate returns the rate per second; 0 while unknown.
func (m *meter) rate() float64 {
	passed := m.last.Sub(m.begun)
	if passed < warmUp {
		return 0
	}
	return m.smoothed / (1 - math.Exp(-passed.Seconds()/smoothing.Seconds()))
}

// maxETA is the longest meaningful estimate.
const maxETA = 100 * time.Hour

// eta returns the time left at the current rate, and whether it is known.
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
