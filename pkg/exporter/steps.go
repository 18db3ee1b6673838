package exporter

import (
	"slices"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/underway"
)

// maxSteps bounds the steps shown: a run has about twenty, and each attempt at the hold repeats some.
const maxSteps = 200

// lastRecord is the newest one; the zero record if there is none.
func lastRecord(records []phase.Record) phase.Record {
	if len(records) == 0 {
		return phase.Record{}
	}
	return records[len(records)-1]
}

// outlook is what the run announced about its time, and what that means now; nothing for a run that announced none.
func outlook(p *underway.Progress) (facts [][2]string) {
	e := p.Expected
	if e == nil {
		return nil
	}
	facts = append(facts, [2]string{"expected", e.Text()})
	if e.NotAWS {
		return facts
	}
	if p.ETA == nil {
		return append(facts, [2]string{"ends", "it takes longer than expected"})
	}
	return append(facts,
		[2]string{"elapsed", report.Percent(min(p.Seconds/e.Seconds, 0.99)) + " of the expected time"},
		[2]string{"ends", "about " + when(*p.ETA)})
}

// currentStep is the last one that began and has not ended; "" between two.
func currentStep(records []phase.Record) string {
	for _, s := range slices.Backward(phase.StepRuns(records)) {
		if s.End.IsZero() {
			return s.Step
		}
	}
	return ""
}

// stateOf is what became of a step, or of its undo.
func stateOf(s *phase.StepRun, alive bool) string {
	switch running := s.End.IsZero(); {
	case s.Died || running && !alive:
		return "interrupted"
	case running && s.Undo:
		return "being undone"
	case running:
		return "running"
	case s.Failed && s.Undo:
		return "undo failed"
	case s.Failed:
		return "failed"
	case s.Undo:
		return "undone"
	}
	return "done"
}
