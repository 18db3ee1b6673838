package htmlreport

import (
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// bar is a row of the timeline.
type bar struct {
	depth   int // 0 a phase, 1 a step or the hold
	kind    string
	name    string
	offset  float64 // seconds since the run's start
	seconds float64
	own     float64 // of a phase: without the time in which an earlier one was also running
	outcome phase.Outcome
	attempt int
}

// bars lays a run out in time. If the report has the start of each phase, every bar is at its place; in older reports
// the phases are consecutive. The own times of the bars of depth 0 add up to the run's total.
func bars(r *report.Report) []bar {
	var out []bar
	zero, end := r.Started, 0.0
	if len(r.Phases) > 0 && !r.Phases[0].Start.IsZero() && (zero.IsZero() || r.Phases[0].Start.Before(zero)) {
		zero = r.Phases[0].Start
	}
	for _, p := range r.Phases {
		offset := at(p.Start, zero, end)
		out = append(out, bar{
			kind: "phase", name: p.Name, offset: offset, seconds: p.Seconds, own: p.Own(), outcome: p.Outcome,
			attempt: p.Attempt,
		})
		inner := offset
		for _, s := range p.Steps {
			from := at(s.Start, zero, inner)
			out = append(out,
				bar{depth: 1, kind: "step", name: s.Name, offset: from, seconds: s.Seconds, outcome: s.Outcome})
			inner = from + s.Seconds
		}
		end = offset + p.Seconds
	}
	numberFirst(out)
	if rest := r.Between(); rest > 0 {
		out = append(out, bar{kind: "rest", name: report.Outside, offset: -1, seconds: rest, own: rest})
	}
	if r.Hold != nil && !r.Hold.Start.IsZero() && !zero.IsZero() {
		out = append(out,
			bar{depth: 1, kind: "hold", name: "hold", offset: at(r.Hold.Start, zero, 0), seconds: r.Hold.Seconds},
			bar{depth: 1, kind: "cut", name: "cut", offset: at(r.Hold.CutStart, zero, 0), seconds: r.Hold.CutSeconds})
	}
	return out
}

// numberFirst numbers the phases of the first attempt if another follows; reports omit that number.
func numberFirst(bars []bar) {
	again := map[string]bool{}
	for _, b := range bars {
		if b.depth == 0 && b.attempt > 1 {
			again[b.name] = true
		}
	}
	for i, b := range bars {
		if b.depth == 0 && b.attempt == 0 && again[b.name] {
			bars[i].attempt = 1
		}
	}
}

// held are the steps that overlap the hold, with times since its start: next to the wait for the snapshots they would
// be too small to see.
func held(r *report.Report) []bar {
	if r.Hold == nil || r.Hold.Start.IsZero() || r.Hold.Seconds <= 0 {
		return nil
	}
	out := []bar{{kind: "hold", name: "hold", seconds: r.Hold.Seconds}}
	if !r.Hold.CutStart.IsZero() {
		out = append(out,
			bar{kind: "cut", name: "cut", offset: at(r.Hold.CutStart, r.Hold.Start, 0), seconds: r.Hold.CutSeconds})
	}
	for _, p := range r.Phases {
		for _, s := range p.Steps {
			from := s.Start.Sub(r.Hold.Start).Seconds()
			if s.Start.IsZero() || from >= r.Hold.Seconds || from+s.Seconds <= 0 || s.Seconds > 10*r.Hold.Seconds {
				continue
			}
			out = append(out,
				bar{depth: 1, kind: "step", name: s.Name, offset: max(from,
					0), seconds: s.Seconds, outcome: s.Outcome, attempt: p.Attempt})
		}
	}
	return out
}

// at is when something began, or the given guess if the report does not have it.
func at(start, zero time.Time, otherwise float64) float64 {
	if start.IsZero() || zero.IsZero() {
		return otherwise
	}
	return max(start.Sub(zero).Seconds(), 0)
}

// span is how many seconds the timeline shows.
func span(r *report.Report, all []bar) float64 {
	length := r.TotalSeconds
	for _, b := range all {
		length = max(length, b.offset+b.seconds)
	}
	return length
}
