package exporter

import (
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/underway"
)

// maxSteps bounds the steps shown: a run has about twenty, and each attempt at the hold repeats some.
const maxSteps = 200

// stepState is one step of a current run, by its journal.
type stepState struct {
	name, outcome, err string
	begin, end         time.Time // end is zero while it runs
}

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
	for _, s := range slices.Backward(steps(records)) {
		if s.end.IsZero() {
			return s.name
		}
	}
	return ""
}

// steps returns the steps that began, in order; a step that is repeated or undone has a row for each time.
func steps(records []phase.Record) []stepState {
	var out []stepState
	end := func(r phase.Record, outcome string) {
		for i := len(out) - 1; i >= 0; i-- {
			if out[i].name == r.Step && out[i].end.IsZero() {
				out[i].outcome, out[i].end, out[i].err = outcome, r.Time, r.Error
				return
			}
		}
	}
	for _, r := range records {
		switch r.Type {
		case phase.RecordBegin, phase.RecordUndo:
			outcome := "running"
			if r.Type == phase.RecordUndo {
				outcome = "being undone"
			}
			out = append(out, stepState{name: r.Step, outcome: outcome, begin: r.Time})
		case phase.RecordDone:
			end(r, "done")
		case phase.RecordFailed:
			end(r, "failed")
		case phase.RecordUndone:
			end(r, "undone")
		case phase.RecordUndoFail:
			end(r, "undo failed")
		case phase.RecordRun, phase.RecordIntent, phase.RecordResult, phase.RecordRetryGroup, phase.RecordResumed,
			phase.RecordEnd:
		}
	}
	return out[max(len(out)-maxSteps, 0):]
}
