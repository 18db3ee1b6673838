package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/runs"
)

// runProgress is how far a live run is.
type runProgress struct {
	Phase string `json:"phase,omitempty"`
	// StepSeconds is how long the current step has run, and Seconds how long the run, gaps included.
	StepSeconds float64 `json:"stepSeconds"`
	Seconds     float64 `json:"seconds"`
	// Expected is what the run announced; nil if it announced nothing. ETA is by it; nil once it takes longer.
	Expected *report.Expected `json:"expected,omitempty"`
	ETA      *time.Time       `json:"eta,omitempty"`
}

// progressOf returns nil for a run that does not run, or of which that is uncertain.
func progressOf(r *runs.Run, now time.Time) *runProgress {
	if r.State != runs.Running || r.Silent || r.History == nil {
		return nil
	}
	restored, resolved := restore.Outline()
	p := &runProgress{Seconds: max(0, now.Sub(r.Started).Seconds())}
	for _, step := range map[journal.Operation][]phase.Outline{
		journal.Backup: backup.Outline(), journal.Restore: restored, journal.Resolve: resolved,
	}[r.Operation] {
		if step.Name == r.Step {
			p.Phase = step.Phase
		}
	}
	for _, record := range r.History.Records {
		if record.Type == phase.RecordBegin && record.Step == r.Step {
			p.StepSeconds = max(0, now.Sub(record.Time).Seconds())
		}
	}
	p.Expected = announced(journal.ReadFacts(r.History.Records).Expected)
	if p.Expected != nil && p.Seconds <= p.Expected.HighSeconds {
		eta := r.Started.Add(time.Duration(p.Expected.Seconds * float64(time.Second))).UTC()
		p.ETA = &eta
	}
	return p
}

func (p *runProgress) print(w io.Writer, step string, v view) {
	fmt.Fprintf(w, "running for %s", report.Duration(p.Seconds))
	if p.Phase != "" {
		fmt.Fprintf(w, "; phase %s", p.Phase)
	}
	if step != "" {
		fmt.Fprintf(w, "; step %s for %s", oneLine(step), report.Duration(p.StepSeconds))
	}
	fmt.Fprintln(w)
	e := p.Expected
	if e == nil {
		return
	}
	fmt.Fprintf(w, "expected duration: %s (%s to %s), by %s; ", report.Duration(e.Seconds),
		report.Duration(e.LowSeconds), report.Duration(e.HighSeconds), oneLine(e.Model))
	if p.ETA == nil {
		fmt.Fprintln(w, "it takes longer")
		return
	}
	fmt.Fprintf(w, "ends at about %s\n", v.text(*p.ETA))
}
