package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/runs"
	"github.com/tisnap/tisnap/pkg/underway"
)

// progressOf returns nil for a run that does not run, or of which that is uncertain.
func progressOf(r *runs.Run, now time.Time) *underway.Progress {
	if r.State != runs.Running || r.Silent || r.History == nil {
		return nil
	}
	p := underway.Of(r.Operation, r.History.Records, r.Step, r.Started, now)
	return &p
}

func printProgress(w io.Writer, p *underway.Progress, step string, v view) {
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
	fmt.Fprintf(w, "expected duration: %s", oneLine(e.Text()))
	switch {
	case p.ETA != nil:
		fmt.Fprintf(w, "; ends at about %s", v.text(*p.ETA))
	case !e.NotAWS:
		fmt.Fprint(w, "; it takes longer")
	}
	fmt.Fprintln(w)
}
