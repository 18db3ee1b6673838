package htmlreport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// shownStores is how many stores are shown initially, those with the most seconds and the slowest of each part; the
// others unfold.
const shownStores = 12

func holdStores(r *report.Report) g.Node {
	if r.Hold == nil {
		return nil
	}
	return stores("Stores during the hold", r.Hold.Stores)
}

func restoreStores(r *report.Report) g.Node { return stores("Stores during the restore", r.Stores) }

// stores has a row per store and a column per part, the slowest store first; the slowest of each part is marked.
func stores(label string, all []phase.StoreParts) g.Node {
	t := newStoreTable(all)
	if len(t.parts) == 0 {
		return nil
	}
	out := g.Group{h.P(h.Class("slowest"), g.Text("Slowest: "+strings.Join(t.named(), "; ")+"."))}
	shown, rest := t.split()
	out = append(out, Scroll(label, t.draw(shown)))
	if len(rest) > 0 {
		out = append(out,
			h.Details(h.Summary(g.Text(plural(len(rest), "other store"))), Scroll(label+", the others", t.draw(rest))))
	}
	return out
}

// storeTable is the stores by their parts.
type storeTable struct {
	parts   []string
	slowest map[string]string // the row's label, by part
	rows    []storeRow
}

type storeRow struct {
	label   string
	seconds map[string]float64
	sum     float64
}

func newStoreTable(all []phase.StoreParts) *storeTable {
	t := &storeTable{slowest: map[string]string{}}
	for _, s := range all {
		row := storeRow{label: "store " + s.Store.String(), seconds: map[string]float64{}}
		if s.Pod != "" {
			row.label += " " + name(s.Pod)
		}
		for _, p := range s.Parts {
			if !slices.Contains(t.parts, p.Name) {
				t.parts = append(t.parts, p.Name)
			}
			row.seconds[p.Name] += p.Seconds
			row.sum += p.Seconds
		}
		t.rows = append(t.rows, row)
	}
	slices.SortStableFunc(t.rows, func(a, b storeRow) int { return cmp.Compare(b.sum, a.sum) })
	for _, part := range t.parts {
		most := 0.0
		for _, row := range t.rows {
			if row.seconds[part] > most {
				most, t.slowest[part] = row.seconds[part], row.label
			}
		}
	}
	return t
}

// named lists the slowest store of each part.
func (t *storeTable) named() []string {
	var out []string
	for _, part := range t.parts {
		for _, row := range t.rows {
			if t.isSlowest(part, row) {
				out = append(out, fmt.Sprintf("%s %s (%s)", name(part), report.Duration(row.seconds[part]), row.label))
				break
			}
		}
	}
	return out
}

func (t *storeTable) isSlowest(part string, row storeRow) bool {
	return len(t.rows) > 1 && t.slowest[part] == row.label
}

// split returns the rows to show and the others, each in order. Every store that named lists is shown, even if that
// makes more than shownStores.
func (t *storeTable) split() (shown, rest []storeRow) {
	free := shownStores
	for _, row := range t.rows {
		if t.isNamed(row) {
			free--
		}
	}
	for _, row := range t.rows {
		switch {
		case t.isNamed(row):
			shown = append(shown, row)
		case free > 0:
			shown, free = append(shown, row), free-1
		default:
			rest = append(rest, row)
		}
	}
	return shown, rest
}

func (t *storeTable) isNamed(row storeRow) bool {
	return slices.ContainsFunc(t.parts, func(part string) bool { return t.isSlowest(part, row) })
}

func (t *storeTable) draw(rows []storeRow) g.Node {
	head := g.Group{column("store")}
	for _, part := range t.parts {
		head = append(head, numColumn(name(part)))
	}
	body := g.Group{}
	for _, row := range rows {
		cells := g.Group{h.Th(h.Scope("row"), g.Text(row.label))}
		for _, part := range t.parts {
			cells = append(cells, t.cell(part, row))
		}
		body = append(body, h.Tr(cells))
	}
	return h.Table(h.Class("stores"), h.THead(h.Tr(head)), h.TBody(body))
}

func (t *storeTable) cell(part string, row storeRow) g.Node {
	seconds, timed := row.seconds[part]
	switch {
	case !timed:
		return num("-")
	case t.isSlowest(part, row):
		return h.Td(h.Class("num most"), h.Span(h.Class("remark"), g.Text("slowest")),
			g.Text(" "+report.Duration(seconds)))
	}
	return num(report.Duration(seconds))
}
