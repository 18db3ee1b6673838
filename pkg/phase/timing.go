package phase

import "time"

// Outcome is how a step or run ended.
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

// StepTiming is how long a step took, by the monotonic clock of the process that executed it, even if that was an
// earlier one.
type StepTiming struct {
	Name    string    `json:"name"`
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
	Outcome Outcome   `json:"outcome"`
	Parts   []Part    `json:"parts,omitempty"`
}

// Timing is how long a phase took: from its first step's start to its last step's end in this process, plus its steps
// in earlier processes.
type Timing struct {
	Phase   string    `json:"phase"`
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
	Outcome Outcome   `json:"outcome"`
	// OverlapSeconds is the part of Seconds in which an earlier phase was running too. The rest is the phase's own
	// time, by which it lengthens the run.
	OverlapSeconds float64 `json:"overlapSeconds,omitempty"`
	// Attempt is 2 for a phase of its steps' second attempt, and so on; 0 for the first.
	Attempt int          `json:"attempt,omitempty"`
	Steps   []StepTiming `json:"steps"`
}

// Timings are the phases of a run in order.
type Timings []Timing

// Seconds returns the named phase's time, 0 if it did not run.
func (t Timings) Seconds(phase string) float64 {
	var sum float64
	for _, p := range t {
		if p.Phase == phase {
			sum += p.Seconds
		}
	}
	return sum
}

// Total returns the time in which any phase was running: the sum of the phases' own times.
func (t Timings) Total() float64 {
	var sum float64
	for _, p := range t {
		sum += p.Seconds - p.OverlapSeconds
	}
	return sum
}
