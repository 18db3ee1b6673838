package htmlreport

import (
	"fmt"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// clean makes a text safe for a page: one line without control characters, at most failure.MaxRemote bytes.
func clean(text string) string { return failure.Line(text) }

func name(text string) string { return report.Name(text) }

func clusterName(c cluster.Name) string { return name(c.String()) }

// subject is what the run did: "backup nightly of tidb/prod".
func subject(r *report.Report) string {
	switch r.Operation {
	case report.Restore, report.Resolve:
		return fmt.Sprintf("%s of %s to %s", name(string(r.Operation)), name(string(r.Backup)), clusterName(r.Cluster))
	default:
		return fmt.Sprintf("%s %s of %s", name(string(r.Operation)), name(string(r.Backup)), clusterName(r.Cluster))
	}
}

func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// Badge is a run's outcome, as a word and a colour.
func Badge(outcome phase.Outcome) g.Node {
	class := "badge"
	switch outcome {
	case phase.Done:
		class += " good"
	case phase.Failed:
		class += " bad"
	case phase.Skipped: // as an unknown step
	}
	if outcome == "" {
		outcome = "unknown"
	}
	return h.Span(h.Class(class), g.Text(name(string(outcome))))
}

func list(items []string) g.Node {
	if len(items) == 0 {
		return nil
	}
	return h.Ul(g.Map(items, func(item string) g.Node { return h.Li(g.Text(clean(item))) }))
}

func column(text string) g.Node { return h.Th(h.Scope("col"), g.Text(text)) }

func numColumn(text string) g.Node { return h.Th(h.Scope("col"), h.Class("num"), g.Text(text)) }

func num(text string) g.Node { return h.Td(h.Class("num"), g.Text(text)) }

// Scroll makes a wide table scroll separately; it is reachable by keyboard.
func Scroll(label string, table g.Node) g.Node {
	return h.Div(h.Class("scroll"), h.Role("region"), h.Aria("label", label), h.TabIndex("0"), table)
}
