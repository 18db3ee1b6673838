// Package trendpage writes the trend of a storage's runs as one HTML file, in the style of the reports.
package trendpage

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/report/htmlreport"
)

// maxRows is how many runs of a series are listed and drawn: the newest. The figures are of all.
const maxRows = 400

// Write writes the page and returns w's error.
func Write(w io.Writer, t *history.Trend) error {
	title := "runs since " + t.Since.UTC().Format("2006-01-02")
	body := g.Group{h.H1(h.Class("title"), g.Text(title))}
	if len(t.Series) == 0 {
		body = append(body, h.P(g.Text("No run has a report.")))
	}
	for i, s := range t.Series {
		body = append(body, series("series-"+strconv.Itoa(i+1), s))
	}
	err := htmlreport.Document(title, nil, body).Render(w)
	return failure.Wrap(err, failure.Unknown, "write trend", "")
}

func series(id string, s history.Series) g.Node {
	points := s.Points[max(len(s.Points)-maxRows, 0):]
	title := fmt.Sprintf("%ss of %s", report.Name(string(s.Operation)), report.Name(s.Cluster.String()))
	out := g.Group{h.H2(h.ID(id), g.Text(title)), figures(s), failed(s)}
	if len(s.Slower) > 0 {
		items := g.Group{}
		for _, slow := range s.Slower {
			items = append(items, h.Li(g.Text(fmt.Sprintf("%s took %s in the last run, its median is %s",
				report.Name(slow.Phase), report.Duration(slow.Seconds), report.Duration(slow.Median)))))
		}
		out = append(out,
			h.Div(h.Class("problem"), h.Role("note"), h.Strong(g.Text("Slower than its own median")), h.Ul(items)))
	}
	out = append(out, chart("total", points, func(p history.Point) float64 { return p.Seconds }))
	if s.HoldSeconds != nil {
		out = append(out, chart("hold", points, func(p history.Point) float64 { return p.HoldSeconds }))
	}
	out = append(out, chart("data", points, func(p history.Point) float64 { return float64(p.DataBytes) }))
	out = append(out, chart("written to", points, changedBytes))
	return h.Section(h.Aria("labelledby", id), out, table(title, points))
}

// failed lists the failures by kind.
func failed(s history.Series) g.Node {
	if len(s.Failed) == 0 {
		return nil
	}
	items := g.Group{}
	for _, kind := range slices.Sorted(maps.Keys(s.Failed)) {
		items = append(items, h.Li(g.Text(fmt.Sprintf("%d %s", s.Failed[kind], report.Name(kind)))))
	}
	return h.Div(h.Class("problem"), h.Role("note"), h.Strong(g.Text("Failed")), h.Ul(items))
}

func figures(s history.Series) g.Node {
	out := g.Group{
		htmlreport.Figure("runs", strconv.Itoa(len(s.Points)),
			fmt.Sprintf("%d done, %d failed", s.Done, len(s.Points)-s.Done)),
		htmlreport.Figure("total, last", report.Duration(s.Seconds.Last),
			"median "+report.Duration(s.Seconds.Median)+", at most "+report.Duration(s.Seconds.Most)),
	}
	if hold := s.HoldSeconds; hold != nil {
		out = append(out,
			htmlreport.Figure("hold, last", report.Duration(hold.Last),
				"median "+report.Duration(hold.Median)+", at most "+report.Duration(hold.Most)))
	}
	if last := s.Points[len(s.Points)-1]; last.DataBytes > 0 {
		out = append(out, htmlreport.Figure("data", report.Bytes(last.DataBytes), history.Grown(last.GrownBytes)))
		if c := last.Changed; c != nil {
			out = append(out,
				htmlreport.Figure("written to", c.Size(), fmt.Sprintf("%d of %d regions", c.Regions, c.Of)))
		}
	}
	return h.Dl(h.Class("figures"), out)
}

// chart draws a bar per run; the numbers are in the table below it. Those of "data" and "written to" are bytes, the
// others seconds.
func chart(name string, points []history.Point, figure func(history.Point) float64) g.Node {
	most := 0.0
	for _, p := range points {
		most = max(most, figure(p))
	}
	if most <= 0 {
		return nil
	}
	const height, width = 100.0, 1000.0
	each := width / float64(len(points))
	bars := g.Group{}
	for i, p := range points {
		tall, class := max(figure(p)/most*height, 1), "ok"
		if p.Outcome != phase.Done {
			class = "bad"
		}
		bars = append(bars,
			g.El("rect", h.Class(class), g.Attr("x", number(float64(i)*each)), g.Attr("y", number(height-tall)),
				h.Width(number(max(each*0.8, 0.5))), h.Height(number(tall))))
	}
	top := report.Duration(most)
	if name == "data" || name == "written to" {
		top = report.Bytes(int64(most))
	}
	label := fmt.Sprintf("%s of %d runs, at most %s", name, len(points), top)
	return h.Figure(h.Class("chart"), h.FigCaption(g.Text(label)),
		h.SVG(g.Attr("viewBox", fmt.Sprintf("0 0 %g %g", width, height)), g.Attr("preserveAspectRatio", "none"),
			h.Role("img"), h.Aria("label", label), bars))
}

func changedBytes(p history.Point) float64 {
	if p.Changed == nil {
		return 0
	}
	return float64(p.Changed.DataBytes)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

func table(title string, points []history.Point) g.Node {
	rows := g.Group{}
	for _, p := range slices.Backward(points) {
		hold, data := "-", "-"
		if p.HoldSeconds > 0 {
			hold = report.Duration(p.HoldSeconds)
		}
		if p.DataBytes > 0 {
			data = report.Bytes(p.DataBytes)
		}
		rows = append(rows, h.Tr(
			h.Th(h.Scope("row"), g.Text(p.Started.UTC().Format("2006-01-02 15:04"))),
			h.Td(g.Text(report.Name(string(p.Backup)))),
			h.Td(htmlreport.Badge(p.Outcome)), h.Td(h.Class("num"), g.Text(report.Duration(p.Seconds))),
			h.Td(h.Class("num"), g.Text(hold)), h.Td(h.Class("num"), g.Text(data)),
			h.Td(h.Class("num"), g.Text(cmp.Or(history.Grown(p.GrownBytes), "-"))),
			h.Td(h.Class("num"), g.Text(cmp.Or(p.Changed.Size(), "-"))),
		))
	}
	head := g.Group{}
	for _, c := range []string{"started (UTC)", "backup", "outcome"} {
		head = append(head, h.Th(h.Scope("col"), g.Text(c)))
	}
	for _, c := range []string{"total", "hold", "data", "grown", "written to"} {
		head = append(head, h.Th(h.Scope("col"), h.Class("num"), g.Text(c)))
	}
	return htmlreport.Scroll(title, h.Table(h.THead(h.Tr(head)), h.TBody(rows)))
}
