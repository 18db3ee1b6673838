package htmlreport

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/report"
)

// expected has the model's figures next to the run's own.
func expected(r *report.Report) g.Node {
	e := r.Shown()
	if e == nil {
		return nil
	}
	rows := g.Group{}
	add := func(name string, low, want, high, got float64, ran bool) {
		actual, share, difference, verdict := "-", "-", "-", "not run"
		if ran {
			actual = report.Duration(got)
			if verdict = ""; !e.NotAWS {
				difference, verdict = report.Difference(want, got), report.Comparison(low, high, got)
			}
			if r.TotalSeconds > 0 {
				share = report.Percent(got / r.TotalSeconds)
			}
		}
		rows = append(rows,
			h.Tr(h.Th(h.Scope("row"), g.Text(name)), num(report.Roughly(want)),
				num(report.Range(low, high)),
				num(report.Percent(want/e.Seconds)), num(actual), num(share), num(difference), h.Td(g.Text(verdict))))
	}
	for _, p := range e.Phases {
		got, ran := r.OwnSeconds(p.Name)
		add(name(p.Name), p.LowSeconds, p.Seconds, p.HighSeconds, got, ran)
	}
	add("total", e.LowSeconds, e.Seconds, e.HighSeconds, r.TotalSeconds, true)
	source := "The model is from " + clean(e.Model) + "."
	if e.NotAWS {
		source += " It is a model of AWS: not comparable here."
	}
	return g.Group{
		h.P(g.Text(source)),
		Scroll("Expected and actual", h.Table(h.Class("expected"),
			h.THead(
				h.Tr(column("phase"), numColumn("expected"), numColumn("range"), numColumn("share"),
					numColumn("actual"), numColumn("share"), numColumn("difference"), column(""))),
			h.TBody(rows))),
	}
}

// published is the published table with the run's figures; nil for an archive or a copy, for which there is none.
func published(r *report.Report, compare bool) g.Node {
	if len(report.PublishedPhases(r.Operation)) == 0 {
		return nil
	}
	t := r.Published(compare)
	head := g.Group{}
	for i, c := range t.Head {
		if i == 0 {
			head = append(head, column(c))
		} else {
			head = append(head, numColumn(c))
		}
	}
	rows := g.Group{}
	for _, row := range t.Rows {
		cells := g.Group{}
		for i, c := range row {
			if i == 0 {
				cells = append(cells, h.Th(h.Scope("row"), g.Text(c)))
			} else {
				cells = append(cells, num(clean(c)))
			}
		}
		rows = append(rows, h.Tr(cells))
	}
	return g.Group{
		Scroll("In the published form", h.Table(h.THead(h.Tr(head)), h.TBody(rows))),
		g.If(t.Note != "", h.P(g.Text(t.Note))),
	}
}
