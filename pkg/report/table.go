package report

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/tisnap/tisnap/pkg/phase"
)

// phaseTable has a row for each phase, then the total. Expected phases that did not run follow those that did, so that
// a run that failed halfway shows what it did not reach.
func (r *Report) phaseTable(o TableOptions, expected []string) table.Writer {
	t := table.NewWriter()
	t.AppendHeader(table.Row{"phase", "time", "share", "note"})
	t.SetColumnConfigs([]table.ColumnConfig{right(2), right(3), {Number: 4, Align: text.AlignLeft}})
	t.SuppressEmptyColumns()
	row := func(depth int, name string, seconds, own float64, remark string) {
		t.AppendRow(table.Row{indent(depth, name), Duration(seconds), Percent(r.share(own)), remark})
	}
	add := func(depth int, name string, seconds float64, remark string) {
		row(depth, name, seconds, seconds, remark)
	}
	ran := map[string]bool{}
	cut := r.last(VolumeSnapshots) // the hold's figures are those of the last attempt
	for i := range r.Phases {
		p := &r.Phases[i]
		ran[p.Name] = true
		row(0, p.Name, p.Seconds, p.Own(), p.note())
		if i == cut {
			r.holdRows(o, add)
		}
		if o.Details {
			stepRows(p.Steps, add)
		}
	}
	if !ran[VolumeSnapshots] {
		r.holdRows(o, add)
	}
	for _, name := range expected {
		if !ran[name] {
			t.AppendRow(table.Row{name, absent, absent, "not run"})
		}
	}
	if rest := r.Between(); rest > 0 {
		add(0, Outside, rest, "")
	}
	t.AppendFooter(table.Row{"total", Duration(r.TotalSeconds), "100%", ""})
	return t
}

// last is the index of the last phase of that name, or -1.
func (r *Report) last(name string) int {
	for i := len(r.Phases) - 1; i >= 0; i-- {
		if r.Phases[i].Name == name {
			return i
		}
	}
	return -1
}

// Own is the phase's time without that in which an earlier one was also running.
func (p *Phase) Own() float64 { return p.Seconds - p.OverlapSeconds }

// overlaps reports whether the overlap is long enough to be visible in a table.
func (p *Phase) overlaps() bool { return p.OverlapSeconds >= 0.05 && p.OverlapSeconds >= p.Seconds/100 }

// note is the remark on the phase.
func (p *Phase) note() string {
	remark := note(p.Outcome)
	if p.overlaps() {
		remark = strings.TrimPrefix(remark+", ", ", ") + "its own " + Duration(p.Own())
	}
	if p.Attempt == 0 {
		return remark
	}
	return strings.TrimSuffix(fmt.Sprintf("attempt %d, %s", p.Attempt, remark), ", ")
}

// holdRows shows the length of the hold and of the cut, which are parts of the phases.
func (r *Report) holdRows(o TableOptions, add func(int, string, float64, string)) {
	h := r.Hold
	if h == nil {
		return
	}
	remark := ""
	if h.Attempts > 1 {
		remark = fmt.Sprintf("attempt %d", h.Attempts)
	}
	add(1, "hold", h.Seconds, remark)
	if o.Details {
		for _, p := range h.Parts {
			add(2, p.Name, p.Seconds, "")
		}
	}
	add(1, "cut", h.CutSeconds, fmt.Sprintf("skew %s", Duration(h.SkewSeconds)))
}

func stepRows(steps []Step, add func(int, string, float64, string)) {
	for _, s := range steps {
		add(1, s.Name, s.Seconds, note(s.Outcome))
		for _, p := range s.Parts {
			add(2, p.Name, p.Seconds, "")
		}
	}
}

// restoreTable has the columns of the published case: the run, each phase's share of its total and, with Compare, the
// published case.
func (r *Report) restoreTable(o TableOptions) table.Writer {
	t := table.NewWriter()
	head := table.Row{"", "total\ndata", "data/\nvolume", "TiKVs"}
	configs := []table.ColumnConfig{{Number: 1, Align: text.AlignLeft}, right(2), right(3), right(4)}
	for i, name := range restorePhases() {
		// A two-line header keeps nine columns within the width of a terminal.
		head = append(head, strings.Replace(name, " ", "\n", 1))
		configs = append(configs, right(5+i))
	}
	t.AppendHeader(append(head, "total"))
	t.SetColumnConfigs(append(configs, right(5+len(restorePhases()))))
	t.AppendRow(r.restoreRow("this run"))
	for _, line := range r.ownRows(restorePhases()) {
		row := table.Row{}
		for _, cell := range line {
			row = append(row, cell)
		}
		t.AppendRow(row)
	}
	if o.Compare {
		t.AppendRow(publishedRestore().restoreRow("published"))
	}
	return t
}

func (r *Report) restoreRow(label string) table.Row {
	row := table.Row{label, Bytes(r.DataBytes), Bytes(r.DataPerVolumeBytes), r.TiKVs}
	for _, name := range restorePhases() {
		cell := absent
		if seconds, ran := r.Seconds(name); ran {
			cell = Duration(seconds)
		}
		if r.failedIn(name) {
			cell += "\nfailed"
		}
		row = append(row, cell)
	}
	return append(row, Duration(r.TotalSeconds))
}

func (r *Report) failedIn(name string) bool {
	for _, p := range r.Phases {
		if p.Name == name && p.Outcome == phase.Failed {
			return true
		}
	}
	return false
}

func right(column int) table.ColumnConfig {
	return table.ColumnConfig{
		Number: column, Align: text.AlignRight, AlignHeader: text.AlignRight, AlignFooter: text.AlignRight,
	}
}

// noBreakSpace indents in Markdown, whose renderers drop leading blanks.
const noBreakSpace = "\u00a0"

func indent(depth int, name string) string { return strings.Repeat(noBreakSpace, 2*depth) + name }
