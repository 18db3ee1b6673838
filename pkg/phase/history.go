package phase

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
)

// History is a journal's record of a run's processes so far.
type History struct {
	Records []Record
	// Ended reports that the run has ended, with Error unless it succeeded.
	Ended bool
	Error string

	done  map[string]json.RawMessage
	began map[string]bool // and was neither undone nor ended
	times map[string]StepTiming
}

// ReadHistory reads a journal; one without records has an empty history.
func ReadHistory(ctx context.Context, j Journal) (*History, error) {
	records, err := j.Records(ctx)
	if err != nil {
		return nil, err
	}
	return newHistory(records), nil
}

func newHistory(records []Record) *History {
	h := &History{Records: records, done: doneSteps(records), began: map[string]bool{}, times: map[string]StepTiming{}}
	if n := len(records); n > 0 && records[n-1].Type == RecordEnd {
		h.Ended, h.Error = true, records[n-1].Error
	}
	for _, r := range records {
		switch r.Type {
		case RecordBegin:
			h.began[r.Step] = true
			h.times[r.Step] = StepTiming{Name: r.Step, Start: r.Time, Outcome: Skipped}
		case RecordDone:
			t := h.times[r.Step]
			t.Seconds, t.Parts = r.Seconds, r.Parts
			h.times[r.Step] = t
		case RecordUndone:
			delete(h.began, r.Step)
		case RecordRetryGroup:
			for _, name := range r.group() {
				delete(h.began, name)
			}
		default: // irrelevant to what a step has left
		}
	}
	return h
}

// Unfinished reports that the run began and has not ended: its process is running or died.
func (h *History) Unfinished() bool { return len(h.Records) > 0 && !h.Ended }

// Undoing reports whether a process was undoing the run, or an attempt, when it died: part of what it made is gone.
func (h *History) Undoing() bool {
	undoing := false
	for _, r := range h.Records {
		switch r.Type {
		case RecordUndo:
			undoing = true
		case RecordRetryGroup:
			undoing = false // everything is undone and starts from scratch
		default:
		}
	}
	return undoing
}

// Epoch is the highest of the run's processes; 0 if none had the lock.
func (h *History) Epoch() (highest int64) {
	for _, r := range h.Records {
		highest = max(highest, r.Epoch)
	}
	return highest
}

// Done reports whether the step is done, and was not undone since.
func (h *History) Done(step string) bool { _, done := h.done[step]; return done }

// Result decodes what a step that is done recorded as its Resumption.State.
func (h *History) Result(step string, into any) error {
	return failure.Wrap(json.Unmarshal(h.done[step], into), failure.Corrupt, "read the journal", step)
}

// Began reports whether the step began and was not undone since: it may have left something.
func (h *History) Began(step string) bool { return h.began[step] }

// Process is one process of a run, by its journal.
type Process struct {
	Start time.Time `json:"start"` // of its first record
	End   time.Time `json:"end"`   // of its last one
	// Seconds is the sum of its steps' times by the monotonic clock; concurrent steps all count.
	Seconds float64 `json:"seconds"`
	// Step is the one in which it died or failed, the last begun of several; "" if it finished.
	Step string `json:"step,omitempty"`
	// GapSeconds is the wall time between the previous process's end and this one's start.
	GapSeconds float64 `json:"gapSeconds,omitempty"`
}

// Processes lists them, earliest first.
func (h *History) Processes() []Process {
	var out []Process
	var open []string // running steps, by their begin
	for i, r := range h.Records {
		if i == 0 || r.Type == RecordResumed {
			open = nil
			p := Process{Start: r.Time}
			if len(out) > 0 {
				p.GapSeconds = max(0, r.Time.Sub(out[len(out)-1].End).Seconds())
			}
			out = append(out, p)
		}
		p := &out[len(out)-1]
		p.End, p.Seconds = r.Time, p.Seconds+r.Seconds
		switch {
		case r.Type == RecordBegin:
			open = append(open, r.Step)
		case r.Type == RecordDone:
			open = slices.DeleteFunc(open, func(step string) bool { return step == r.Step })
		case r.Type == RecordEnd && r.Error == "":
			open = nil
		}
		p.Step = ""
		if len(open) > 0 {
			p.Step = open[len(open)-1]
		}
	}
	return out
}

// RunningSeconds is how long the steps have run that the last process does or undoes; concurrent steps all count.
// Seconds of a Process are only those of steps that ended.
func (h *History) RunningSeconds(now time.Time) (sum float64) {
	began := map[string]time.Time{}
	for _, r := range h.Records {
		switch r.Type {
		case RecordResumed:
			clear(began)
		case RecordBegin, RecordUndo:
			began[r.Step] = r.Time
		case RecordDone, RecordFailed, RecordUndone, RecordUndoFail:
			delete(began, r.Step)
		default: // neither begins nor ends a step
		}
	}
	for _, at := range began {
		sum += max(0, now.Sub(at).Seconds())
	}
	return sum
}

// forget removes the steps from those that are done.
func (h *History) forget(steps []Step) {
	for i := range steps {
		delete(h.done, steps[i].Name)
	}
}

// prepare decides which steps are repeated. An incomplete group starts from the beginning, and so do the preceding
// steps whose results it uses.
func (e *Engine) prepare(steps []Step) {
	h := e.history
	if first, last := e.group(steps); last >= 0 && !h.Done(steps[last].Name) {
		first = max(0, first)
		h.forget(steps[:last+1])
		for i := range steps[first : last+1] {
			delete(h.began, steps[first+i].Name) // Resume.Adopt throws it away
		}
	}
	for i := range steps {
		step := &steps[i]
		if step.Resume.Repeat {
			delete(h.done, step.Name)
			delete(h.began, step.Name)
		}
		if h.Done(step.Name) {
			for _, ended := range step.Order.Ends {
				delete(h.began, ended)
			}
		}
	}
}

// adopt records, in step order, what earlier processes left that this one may have to undo.
func (e *Engine) adopt(steps []Step) {
	for i := range steps {
		if e.history.Began(steps[i].Name) {
			e.remember(&steps[i])
		}
	}
}
