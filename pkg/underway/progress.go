package underway

import (
	"encoding/json"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/create"
	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/drill"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/restore"
)

// Progress is how far a live run is.
type Progress struct {
	Phase string `json:"phase,omitempty"`
	// StepSeconds is how long the current step has run, and Seconds how long the run, gaps included.
	StepSeconds float64 `json:"stepSeconds"`
	Seconds     float64 `json:"seconds"`
	// Expected is what the run announced; nil if it announced nothing. ETA is by it; nil once it
	// takes longer, and if the model is of AWS and the run is not there.
	Expected *report.Expected `json:"expected,omitempty"`
	ETA      *time.Time       `json:"eta,omitempty"`
}

// Of returns the progress of a run that began then, and is in this step ("" between two).
func Of(of journal.Operation, records []phase.Record, step string, began, now time.Time) Progress {
	p := Progress{Phase: Phases(of)[step], Seconds: since(began, now)}
	for _, s := range phase.StepRuns(records) {
		if !s.Undo && s.Step == step {
			p.StepSeconds = since(s.Begin, now)
		}
	}
	p.Expected = Expected(journal.ReadFacts(records).Expected)
	if p.Expected != nil && !p.Expected.NotAWS && p.Seconds <= p.Expected.HighSeconds {
		eta := began.Add(time.Duration(p.Expected.Seconds * float64(time.Second))).UTC()
		p.ETA = &eta
	}
	return p
}

// since is not negative: the run's clock may be ahead.
func since(t, now time.Time) float64 { return max(0, now.Sub(t).Seconds()) }

// Phases maps the steps of a kind of run to the phases of its report.
func Phases(of journal.Operation) map[string]string {
	restored, resolved := restore.Outline()
	outline := map[journal.Operation][]phase.Outline{
		journal.Backup: backup.Outline(), journal.Restore: restored, journal.Resolve: resolved,
		journal.Archive: create.Outline(), journal.Copy: copyrun.Outline(),
		journal.Drill: drill.Outline(),
	}[of]
	phases := make(map[string]string, len(outline))
	for _, o := range outline {
		phases[o.Name] = o.Phase
	}
	return phases
}

// Expected decodes a journalled expectation; nil if there is none, or only one that this version cannot read.
func Expected(journalled json.RawMessage) *report.Expected {
	var e report.Expected
	if len(journalled) == 0 || json.Unmarshal(journalled, &e) != nil || e.Seconds <= 0 {
		return nil
	}
	return &e
}
