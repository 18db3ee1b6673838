package ui

import (
	"encoding/json"
	"math"
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
)

// pace is the minimum time between two progress events of a step.
const pace = 500 * time.Millisecond

// Line is one line of JSON progress. Fields are added between versions and never renamed.
type Line struct {
	phase.Event
	// Done and Total are always present in a progress event; Total is 0 while unknown.
	Done  *int64 `json:"done,omitempty"`
	Total *int64 `json:"total,omitempty"`
	// ElapsedSeconds is since the step started, or the phase for an event of a phase.
	ElapsedSeconds float64 `json:"elapsedSeconds,omitempty"`
	// RatePerSecond is smoothed; omitted while unknown.
	RatePerSecond *float64 `json:"ratePerSecond,omitempty"`
	// ETASeconds is an estimate by the smoothed rate; omitted while unknown.
	ETASeconds *float64 `json:"etaSeconds,omitempty"`
}

// jsonLines writes one event per line. It throttles progress, but always writes a step's last progress before its end.
type jsonLines struct {
	out  *stream
	enc  *json.Encoder
	all  activities
	now  *activity    // the activity of held
	held *phase.Event // progress not yet written
	last time.Time    // of the last progress line
}

func newJSONLines(out *stream) *jsonLines {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return &jsonLines{out: out, enc: enc}
}

func (j *jsonLines) event(e phase.Event, at time.Time) {
	if e.Type == phase.Progress {
		if j.held != nil && j.held.Step != e.Step {
			j.release(at)
		}
		j.now = j.all.apply(e, at)
		j.held = &e
		if at.Sub(j.last) >= pace {
			j.release(at)
		}
		return
	}
	j.release(at)
	j.all.apply(e, at)
	j.write(e)
	if e.Type == phase.StepStarted {
		j.last = time.Time{}
	}
}

func (j *jsonLines) release(at time.Time) {
	if j.held == nil {
		return
	}
	j.write(*j.held)
	j.held, j.last = nil, at
}

func (j *jsonLines) write(e phase.Event) {
	line := Line{Event: e, ElapsedSeconds: milli(e.Elapsed)}
	if e.Type == phase.Progress {
		line.Done, line.Total = &e.Done, &e.Total
		if j.now.step != "" && j.now.step != e.Step { // a concurrent step is the one being followed
			_ = j.enc.Encode(line)
			return
		}
		if rate := math.Round(j.now.meter.rate()*1000) / 1000; rate > 0 {
			line.RatePerSecond = &rate
		}
		if left, known := j.now.meter.eta(e.Done, e.Total); known {
			seconds := milli(left)
			line.ETASeconds = &seconds
		}
	}
	_ = j.enc.Encode(line) // the stream keeps the error for Close
}

// milli returns the duration in seconds, rounded to a millisecond.
func milli(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

func (j *jsonLines) text(lines []byte) { j.out.print(string(lines)) }

func (j *jsonLines) tick(now time.Time) time.Duration {
	if now.Sub(j.last) >= pace {
		j.release(now)
	}
	return pace
}

func (j *jsonLines) finish(now time.Time) { j.release(now) }
