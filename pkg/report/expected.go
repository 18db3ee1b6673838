package report

import (
	"fmt"
	"math"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/tisnap/tisnap/pkg/phase"
)

// Shown is the estimate to show beside the run's times; nil without one, and for a run that failed: how long it took to
// fail is no error of the model.
func (r *Report) Shown() *Expected {
	if e := r.Expected; e != nil && e.Seconds > 0 && r.Outcome != phase.Failed {
		return e
	}
	return nil
}

// expectedLine is the model's estimate and its error; "" if none is shown.
func (r *Report) expectedLine() string {
	e := r.Shown()
	if e == nil {
		return ""
	}
	difference, off := "; it took as long as expected", math.Round(100*(r.TotalSeconds/e.Seconds-1))
	switch {
	case e.NotAWS:
		difference = ""
	case off > 0:
		difference = fmt.Sprintf("; it took %.0f%% more than expected", off)
	case off < 0:
		difference = fmt.Sprintf("; it took %.0f%% less than expected", -off)
	}
	return "expected: " + e.Text() + difference
}

// noise is how many seconds an expectation may be off without a word: it is printed in whole seconds.
const noise = 1

// Difference is how far a time was from what was expected; "-" if nothing was, or if it was off by less than a second.
func Difference(want, got float64) string {
	off := 100 * (got/want - 1)
	switch {
	case want <= 0 || math.Abs(got-want) < noise:
		return absent
	case off > 900:
		return fmt.Sprintf("×%.0f", got/want)
	case math.Abs(off) < 0.5:
		return "0%"
	default:
		return fmt.Sprintf("%+.0f%%", off)
	}
}

// Comparison compares a time with the range that was expected.
func Comparison(low, high, got float64) string {
	switch {
	case got-high >= noise:
		return "slower"
	case low-got >= noise:
		return "faster"
	default:
		return "as expected"
	}
}

// expectedTable has the expected and the actual time of each phase, both with their shares.
func (r *Report) expectedTable() table.Writer {
	e, t := r.Expected, table.NewWriter()
	t.AppendHeader(table.Row{"phase", "expected", "range", "share", "actual", "share", "difference"})
	t.SetColumnConfigs([]table.ColumnConfig{right(2), right(3), right(4), right(5), right(6), right(7)})
	row := func(name string, want, low, high, got float64, ran bool) table.Row {
		out := table.Row{
			name, Roughly(want), Range(low, high), Percent(want / e.Seconds), absent, absent,
			"not run",
		}
		if ran {
			out[4], out[5], out[6] = Duration(got), Percent(r.share(got)), absent
			if !e.NotAWS {
				out[6] = Difference(want, got)
			}
		}
		return out
	}
	for _, p := range e.Phases {
		got, ran := r.OwnSeconds(p.Name)
		t.AppendRow(row(p.Name, p.Seconds, p.LowSeconds, p.HighSeconds, got, ran))
	}
	t.AppendFooter(row("total", e.Seconds, e.LowSeconds, e.HighSeconds, r.TotalSeconds, true))
	return t
}
