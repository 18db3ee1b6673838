package sweep

import "time"

// job is something that is done beside a sweep now and then, one at a time of its kind.
type job struct {
	ended   chan error // holds one, so that the sweep may end first
	running bool
	began   time.Time
	last    time.Time
	took    time.Duration
}

func newJob() job { return job{ended: make(chan error, 1)} }

// begin runs f beside the sweep.
func (w *Sweep) begin(j *job, f func() error) {
	j.running, j.began = true, time.Now()
	w.beside.Go(func() { j.ended <- f() })
}

func (j *job) done(now time.Time) { j.running, j.last, j.took = false, now, now.Sub(j.began) }

func (j *job) due(now time.Time, every time.Duration) bool {
	return !j.running && now.Sub(j.last) >= every
}
