package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/report/htmlreport"
)

// runReportDoc is the runs of a backup: its own first, then its restores.
type runReportDoc struct {
	header
	Backup cluster.BackupID `json:"backup"`
	// Asked is the requested run; omitted if a backup was requested.
	Asked cluster.RunID    `json:"asked,omitempty"`
	Items []*report.Report `json:"items"`

	options report.TableOptions
}

func newRunReport(found *history.Found, f reportFlags) *runReportDoc {
	return &runReportDoc{
		header: newHeader("ReportList"), Backup: found.Backup, Asked: found.Asked, Items: found.Reports,
		options: report.TableOptions{Compare: f.compare, Details: f.details},
	}
}

// shown returns the reports of the requested run, or of all.
func (d *runReportDoc) shown() []*report.Report {
	if d.Asked == "" {
		return d.Items
	}
	var out []*report.Report
	for _, r := range d.Items {
		if r.Run == d.Asked {
			out = append(out, r)
		}
	}
	return out
}

func (d *runReportDoc) each(write func(io.Writer, *report.Report) error) (string, error) {
	var b strings.Builder
	for i, r := range d.shown() {
		if i > 0 {
			b.WriteString("\n")
		}
		if err := write(&b, r); err != nil {
			return "", err
		}
	}
	if others := len(d.Items) - len(d.shown()); others > 0 {
		fmt.Fprintf(&b, "\n%d more runs of backup %s: tisnap report %s\n", others, report.Name(string(d.Backup)),
			report.Name(string(d.Backup)))
	}
	return b.String(), nil
}

func (d *runReportDoc) table(w io.Writer, v view) error {
	text, err := d.each(func(w io.Writer, r *report.Report) error { return r.Table(w, d.options) })
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, text)
	return err
}

func (d *runReportDoc) markdown() (string, error) {
	return d.each(func(w io.Writer, r *report.Report) error { return r.Markdown(w, d.options) })
}

// html puts all runs on one page, the requested one first.
func (d *runReportDoc) html() (string, error) {
	var b bytes.Buffer
	items := append(d.shown(), d.Items...)
	seen := map[*report.Report]bool{}
	var reports []*report.Report
	for _, r := range items {
		if !seen[r] {
			seen[r], reports = true, append(reports, r)
		}
	}
	err := htmlreport.Write(&b, htmlreport.Page{Reports: reports, Published: true})
	return b.String(), err
}
