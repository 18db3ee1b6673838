package htmlreport

import (
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// timeline is a table with a row for each phase and step, with a bar in the last cell that shows the row's numbers.
func timeline(r *report.Report) g.Node {
	all := bars(r)
	if len(all) == 0 {
		return nil
	}
	length := span(r, all)
	rows := g.Group{}
	for _, b := range all {
		rows = append(rows, timelineRow(r, b, length))
	}
	caption := "Phases in bold, their steps below them."
	if r.Hold != nil {
		caption += " The hold and the cut are parts of the phases, not in addition."
	}
	table := h.Table(h.Class("gantt"),
		h.Caption(h.Class("quiet"), g.Text(caption)),
		h.THead(
			h.Tr(column("phase or step"), numColumn("began"), numColumn("time"), numColumn("share"),
				h.Th(h.Scope("col"), h.Class("axis"), axis(length)))),
		h.TBody(rows),
		h.TFoot(
			h.Tr(h.Th(h.Scope("row"), g.Text("total")), num(""), num(report.Duration(r.TotalSeconds)), num("100%"),
				h.Td())),
	)
	return Scroll("Timeline", table)
}

// holdTimeline is the hold alone.
func holdTimeline(r *report.Report) g.Node {
	all := held(r)
	if len(all) == 0 {
		return nil
	}
	length := r.Hold.Seconds
	for _, b := range all {
		length = max(length, b.offset+b.seconds)
	}
	rows := g.Group{}
	for _, b := range all {
		rows = append(rows,
			h.Tr(h.Class(rowClass(b)), h.Th(h.Scope("row"), g.Text(name(b.name)), remark(b)),
				num("+"+report.Duration(b.offset)),
				num(report.Duration(b.seconds)), num(report.Percent(b.seconds/r.Hold.Seconds)),
				h.Td(h.Class("track"), drawn(b, length))))
	}
	return Scroll("While the cluster was held", h.Table(h.Class("gantt"),
		h.THead(
			h.Tr(column("step"), numColumn("began"), numColumn("time"), numColumn("of the hold"),
				h.Th(h.Scope("col"), h.Class("axis"), axis(length)))),
		h.TBody(rows)))
}

func timelineRow(r *report.Report, b bar, length float64) g.Node {
	began, share, own := "-", report.Percent(0), b.seconds
	if b.depth == 0 {
		own = b.own
	}
	if b.offset >= 0 {
		began = "+" + report.Duration(b.offset)
	}
	if r.TotalSeconds > 0 {
		share = report.Percent(own / r.TotalSeconds)
	}
	return h.Tr(h.Class(rowClass(b)), h.Data("seconds", strconv.FormatFloat(own, 'f', 6, 64)), h.Data("kind", b.kind),
		h.Th(h.Scope("row"), g.Text(name(b.name)), remark(b)), num(began), num(report.Duration(b.seconds)), num(share),
		h.Td(h.Class("track"), drawn(b, length)))
}

func rowClass(b bar) string {
	class := "row " + b.kind
	if b.outcome == phase.Failed {
		class += " failed"
	}
	if b.outcome == phase.Skipped {
		class += " resumed"
	}
	return class
}

// remark puts the bar's colours into words.
func remark(b bar) g.Node {
	out := g.Group{}
	if b.depth == 0 && b.seconds-b.own >= 0.05 && b.own > 0 {
		out = append(out, h.Span(h.Class("remark"), g.Text("its own "+report.Duration(b.own))))
	}
	if b.attempt > 0 {
		out = append(out, h.Span(h.Class("remark"), g.Textf("attempt %d", b.attempt)))
	}
	if b.outcome != "" && b.outcome != phase.Done {
		out = append(out, h.Span(h.Class("remark"), g.Text(name(string(b.outcome)))))
	}
	return out
}

// scale is how many units wide a track is.
const scale = 1000

// drawn is the bar of a row as SVG, never too narrow to see.
func drawn(b bar, length float64) g.Node {
	if length <= 0 || b.offset < 0 {
		return nil
	}
	const narrowest = 2.0
	width := max(b.seconds/length*scale, narrowest)
	x := min(b.offset/length*scale, scale-narrowest)
	width = min(width, scale-x)
	return h.SVG(h.Class("bar"), g.Attr("viewBox", fmt.Sprintf("0 0 %d 10", scale)),
		g.Attr("preserveAspectRatio", "none"), h.Aria("hidden", "true"),
		g.El("rect", g.Attr("x", coordinate(x)), g.Attr("y", "0"), h.Width(coordinate(width)), h.Height("10")))
}

func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }

// axis has time marks at every quarter.
func axis(length float64) g.Node {
	marks := g.Group{}
	for i := range 5 {
		marks = append(marks, h.Span(g.Text(report.Duration(length*float64(i)/4))))
	}
	return h.Span(h.Class("marks"), marks)
}
