package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/report"
)

// estimateDoc is the output of `tisnap estimate`, and the end of a restore's dry run.
type estimateDoc struct {
	header
	Estimates []*estimate.Estimate `json:"estimates"`
	// Choices are restores of the same data onto other volumes.
	Choices []estimate.Choice `json:"choices,omitempty"`
}

// add estimates one operation, and for a restore the usual volume choices too.
func (d *estimateDoc) add(in estimate.Input, fit *estimate.Fit, prices *estimate.Prices) error {
	e, err := estimate.Of(in, fit, prices)
	if err != nil {
		return err
	}
	d.Estimates = append(d.Estimates, e)
	if in.Operation == report.Restore {
		d.Choices, err = estimate.Profiles(e.Input, fit, prices)
	}
	return err
}

func (d *estimateDoc) table(w io.Writer, v view) error {
	var b strings.Builder
	for i, e := range d.Estimates {
		if i > 0 {
			b.WriteString("\n")
		}
		if err := estimateTable(&b, e, v); err != nil {
			return err
		}
	}
	if len(d.Choices) > 0 {
		b.WriteString("\nthe same restore on other volumes:\n\n")
		if err := choicesTable(&b, d.Choices, v); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func estimateTable(b *strings.Builder, e *estimate.Estimate, v view) error {
	in := e.Input
	fmt.Fprintf(b, "%s of %d stores, %d volumes, %s of data, at most %s per volume\n", in.Operation, in.Stores,
		in.Volumes, report.Bytes(in.DataBytes), report.Bytes(in.LargestBytes))
	fmt.Fprintf(b, "volumes: %s; times from %s\n\n", in.Spec.Text(), e.Model)
	t := newTable("PHASE", "TIME", "RANGE", "SHARE")
	for _, p := range append(e.Phases, e.Total) {
		t.row(p.Name, report.Roughly(p.Seconds), report.Range(p.Low, p.High),
			report.Percent(p.Seconds/max(e.Total.Seconds, 1e-9)))
	}
	if err := t.write(b, v); err != nil {
		return err
	}
	for _, p := range e.Phases {
		if p.Note != "" {
			fmt.Fprintf(b, "%s\n", p.Note)
		}
	}
	fmt.Fprintf(b, "\n")
	costs := newTable("BILLED-BY-AWS", "USD", "WHEN", "NOTE")
	costs.drop = []string{"NOTE"}
	for _, i := range e.Cost.Items {
		costs.row(i.Name, usd(i.USD), billed(i.Month), i.Note)
	}
	costs.row("total", usd(&e.Cost.OnceUSD)+missing(e.Cost), billed(false), "")
	costs.row("total", usd(&e.Cost.MonthUSD)+missing(e.Cost), billed(true), "")
	if err := costs.write(b, v); err != nil {
		return err
	}
	fmt.Fprintf(b, "prices of %s, %s; change them with --prices\n", e.Cost.Region, e.Cost.Date)
	return nil
}

func choicesTable(b *strings.Builder, choices []estimate.Choice, v view) error {
	t := newTable("VOLUMES", "TIME", "RANGE", "ONCE-USD", "MONTH-USD", "MARK")
	t.drop = []string{"RANGE"}
	for _, c := range choices {
		var marks []string
		if c.Fastest {
			marks = append(marks, "fastest")
		}
		if c.Cheapest {
			marks = append(marks, "cheapest")
		}
		e := c.Estimate
		once := usd(&e.Cost.OnceUSD) + missing(e.Cost)
		t.row(c.Name, report.Roughly(e.Total.Seconds),
			report.Range(e.Total.Low, e.Total.High), once, usd(&e.Cost.MonthUSD),
			strings.Join(marks, ", "))
	}
	return t.write(b, v)
}

func usd(amount *float64) string {
	switch {
	case amount == nil:
		return "not known"
	case *amount > 0 && *amount < 0.01:
		return "<0.01"
	default:
		return fmt.Sprintf("%.2f", *amount)
	}
}

func billed(month bool) string {
	if month {
		return "each month"
	}
	return "once"
}

// missing marks a sum that lacks an item without a price.
func missing(c estimate.Cost) string {
	if c.Known() {
		return ""
	}
	return " + ?"
}
