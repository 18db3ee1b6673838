package phase

import "time"

// Outcome says how a step or run ended.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"
	Failed  Outcome = "failed"
	Skipped Outcome = "resumed" // done by an earlier process of the same run
)

// Part is a timed part of a step, or of the hold. Parts may overlap.
type Part struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// StepTiming is how long a step took. Seconds are of the monotonic clock of the process that did it, also if that was
// an earlier one of the run.
type StepTiming struct {
	Name    string    `json:"name"`
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
	Outcome Outcome   `json:"outcome"`
	Parts   []Part    `json:"parts,omitempty"`
}

// Timing is how long a phase took: from its first step's start to its last step's end in this process, and its steps
// that earlier processes of the run did.
type Timing struct {
	Phase   string    `json:"phase"`
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
	Outcome Outcome   `json:"outcome"`
	// OverlapSeconds is for how long of Seconds a phase that began earlier was under way too. The rest is the phase's
	// own time: by it, the run is longer.
	OverlapSeconds float64 `json:"overlapSeconds,omitempty"`
	// Attempt is 2 for a phase of the second attempt at its steps, and so on; 0 for the first.
	Attempt int          `json:"attempt,omitempty"`
	Steps   []StepTiming `json:"steps"`
}

// Timings are the phases of a run in order.
type Timings []Timing

// Seconds is the time of the named phase, 0 if it did not run.
func (t Timings) Seconds(phase string) float64 {
	var sum float64
	for _, p := range t {
		if p.Phase == phase {
			sum += p.Seconds
		}
	}
	return sum
}

// Total is the time in which a phase was under way: the sum over all phases of their own time.
func (t Timings) Total() float64 {
	var sum float64
	for _, p := range t {
		sum += p.Seconds - p.OverlapSeconds
	}
	return sum
}
