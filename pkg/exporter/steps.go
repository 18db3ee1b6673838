package exporter

import (
	"time"

	"github.com/tisnap/tisnap/pkg/phase"
)

// maxSteps bounds the steps shown: a run has about twenty, and each attempt at the hold repeats some.
const maxSteps = 200

// stepState is one step of a current run, by its journal.
type stepState struct {
	name, outcome, err string
	begin, end         time.Time // end is zero while it runs
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
