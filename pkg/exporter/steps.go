package exporter

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/restore"
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

// phasesOf names the phase of each step of a kind of run.
func phasesOf(of report.Operation) map[string]string {
	restored, resolved := restore.Outline()
	outline := map[report.Operation][]phase.Outline{
		report.Backup: backup.Outline(), report.Restore: restored, report.Resolve: resolved,
	}[of]
	phases := make(map[string]string, len(outline))
	for _, o := range outline {
		phases[o.Name] = o.Phase
	}
	return phases
}

// ahead is what the run announced about its time, and what that means now; nothing for a run that announced none.
func ahead(records []phase.Record, began, now time.Time) (facts [][2]string) {
	var e report.Expected
	if json.Unmarshal(journal.ReadFacts(records).Expected, &e) != nil || e.Seconds <= 0 {
		return nil
	}
	took := now.Sub(began).Seconds()
	facts = append(facts, [2]string{"expected", fmt.Sprintf("%s (%s to %s), by %s", report.Duration(e.Seconds),
		report.Duration(e.LowSeconds), report.Duration(e.HighSeconds), e.Model)})
	if took > e.HighSeconds {
		return append(facts, [2]string{"ends", "it takes longer than expected"})
	}
	return append(facts,
		[2]string{"elapsed", report.Percent(min(took/e.Seconds, 0.99)) + " of the expected time"},
		[2]string{"ends", "about " + when(began.Add(time.Duration(e.Seconds*float64(time.Second))))})
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
