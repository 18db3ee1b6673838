package estimate

import (
	"github.com/tisnap/tisnap/pkg/report"
)

// Phase is the expected time of a phase, with its range.
type Phase struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	Low     float64 `json:"lowSeconds"`
	High    float64 `json:"highSeconds"`
	// Note is what the time depends on that is unknown before the run; "" if nothing.
	Note string `json:"note,omitempty"`

	grows float64 // the part of the model's Seconds that depends on the data and the volumes
}

// Estimate is how long a run takes and what it costs.
type Estimate struct {
	Input Input `json:"input"`
	// Model is the source of the times; Fitted ones are by the storage's own runs.
	Model  string  `json:"model"`
	Fitted bool    `json:"fitted"`
	Total  Phase   `json:"total"`
	Phases []Phase `json:"phases"`
	Cost   Cost    `json:"cost"`
}

// published is the name of the model that is not fitted to any run, and its range: two readings of the same published
// number differ by up to 30 %, and the spread of the measurements is unknown.
const (
	published     = "the published tables"
	publishedLow  = 0.7
	publishedHigh = 1.4
)

// Of estimates a run by the model, fitted to a storage's runs (nil: as published), at the given prices.
func Of(in Input, fit *Fit, p *Prices) (*Estimate, error) {
	in, err := in.Complete()
	if err != nil {
		return nil, err
	}
	left := fit.unchanged(in)
	e := &Estimate{
		Input: in, Model: fit.name(in), Fitted: fit.covers(in),
		Phases: phases(in, left.median), Total: Phase{Name: "total"},
	}
	fastest, slowest := phases(in, left.high), phases(in, left.low)
	for i := range e.Phases {
		ph := &e.Phases[i]
		c := fit.curve(in, ph.Name)
		ph.Low, ph.High, ph.Seconds = c.seconds(fastest[i])*c.low, c.seconds(slowest[i])*c.high, c.seconds(*ph)
		if ph.Name == report.ResolveData {
			ph.Note = fit.regionsNote(in, left)
		}
		e.Total.Seconds += ph.Seconds
		e.Total.Low += ph.Low
		e.Total.High += ph.High
	}
	e.Cost = p.of(in, e.Total.Seconds)
	return e, nil
}

// Expected is the estimate in the form of a report.
func (e *Estimate) Expected() *report.Expected {
	out := &report.Expected{
		Model: e.Model, Seconds: e.Total.Seconds, LowSeconds: e.Total.Low, HighSeconds: e.Total.High,
	}
	for _, p := range e.Phases {
		out.Phases = append(out.Phases,
			report.ExpectedPhase{Name: p.Name, Seconds: p.Seconds, LowSeconds: p.Low, HighSeconds: p.High})
	}
	return out
}
