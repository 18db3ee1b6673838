package exporter

import (
	"fmt"
	"slices"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/report"
)

// maxSpark is how many runs a sparkline shows.
const maxSpark = 30

// sparkHeight is in its own coordinates.
const sparkHeight = 20

// sparkline has a bar per run, the newest at the right; its label is the text for screen readers.
func sparkline(what, class string, runs []*history.Run, value func(*history.Run) float64) g.Node {
	runs = runs[max(len(runs)-maxSpark, 0):]
	if len(runs) == 0 {
		return nil
	}
	var values []float64
	for _, r := range runs {
		values = append(values, max(value(r), 0))
	}
	top := slices.Max(values)
	bars := g.Group{}
	for i, v := range values {
		height := 0.0
		if top > 0 {
			height = max(sparkHeight*v/top, 0.5)
		}
		bars = append(bars, g.El("rect", g.Attr("x", strconv.Itoa(4*(maxSpark-len(values)+i))), g.Attr("width", "3"),
			g.Attr("y", coordinate(sparkHeight-height)), g.Attr("height", coordinate(height))))
	}
	last := report.Duration(values[len(values)-1])
	label := fmt.Sprintf("%s of the last %d backups: the last took %s, the longest %s", what, len(values), last,
		report.Duration(top))
	return g.El("figure",
		h.FigCaption(h.Span(g.Text(what)), g.El("b", g.Text(last))),
		h.SVG(h.Class("spark "+class), h.Role("img"), h.Aria("label", label),
			g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", 4*maxSpark-1, sparkHeight)),
			g.Attr("preserveAspectRatio", "none"), bars,
			g.El("line", g.Attr("x1", "0"), g.Attr("y1", strconv.Itoa(sparkHeight)),
				g.Attr("x2", strconv.Itoa(4*maxSpark)), g.Attr("y2", strconv.Itoa(sparkHeight)))))
}

func coordinate(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
