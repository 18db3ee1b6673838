package checks

import (
	"cmp"
	"slices"
)

// Outcome is how a check, or all of them together, ended.
type Outcome string

// The outcomes. NotMade is of a check that could not be made for a reason that is not the data's; Skipped is of one for
// which no time was left.
const (
	Passed   Outcome = "passed"
	Failed   Outcome = "failed"
	TimedOut Outcome = "timed-out"
	NotMade  Outcome = "not-made"
	Skipped  Outcome = "skipped"
)

// Kind is what a check asks.
type Kind string

// The kinds.
const (
	OfStatement Kind = "statement"
	OfTable     Kind = "table"
	OfChecksum  Kind = "checksum"
)

// Check is one that was to be made.
type Check struct {
	Kind    Kind    `json:"kind"`
	Name    string  `json:"name"` // of the user's statement, or the table's
	Outcome Outcome `json:"outcome"`
	// Why is what was found; "" if it passed. Values of rows are not in it.
	Why     string  `json:"why,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Result is what was found.
type Result struct {
	// Outcome is Passed only if at least one check of each kind that was asked for was made, and all that were made
	// passed. Else it is the most serious one: Failed, then NotMade, then TimedOut.
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why,omitempty"` // of an outcome that no single check has
	Checks  []Check `json:"checks"`
	// Seed makes the same choice among the same tables again; Tables is how many there are.
	Seed   uint64 `json:"seed"`
	Tables int    `json:"tables"`
}

// Count is how many checks of a kind ended so.
func (r *Result) Count(kind Kind, outcome Outcome) int {
	n := 0
	for _, c := range r.Checks {
		if c.Kind == kind && c.Outcome == outcome {
			n++
		}
	}
	return n
}

// conclude sets the outcome of all checks together. Asked are the kinds of which at least one has to be made.
func (r *Result) conclude(asked []Kind) {
	serious := []Outcome{Passed, TimedOut, NotMade, Failed}
	r.Outcome = Passed
	for _, c := range r.Checks {
		if c.Outcome != Skipped {
			r.Outcome = slices.MaxFunc([]Outcome{r.Outcome, c.Outcome}, func(a, b Outcome) int {
				return cmp.Compare(slices.Index(serious, a), slices.Index(serious, b))
			})
		}
	}
	if r.Outcome != Passed {
		return
	}
	if len(asked) == 0 {
		r.Outcome, r.Why = Failed, "no check was asked for, which proves nothing"
	}
	for _, kind := range asked {
		if r.Count(kind, Passed) == 0 {
			r.Outcome, r.Why = Failed, "no check of kind "+string(kind)+" was made, which proves nothing"
		}
	}
}
