package cli

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/history/trendpage"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// trendDoc is the trend of all runs of a storage.
type trendDoc struct {
	header
	*history.Trend
}

func newTrendReport(t *history.Trend) *trendDoc { return &trendDoc{newHeader("Trend"), t} }

// shownPoints is how many of a series' latest runs a table lists.
const shownPoints = 10

func (d *trendDoc) table(w io.Writer, v view) error {
	var b strings.Builder
	fmt.Fprintf(&b, "runs since %s\n", d.Since.UTC().Format("2006-01-02 15:04"))
	if len(d.Series) == 0 {
		b.WriteString("no run has a report\n")
	}
	for _, s := range d.Series {
		fmt.Fprintf(&b, "\n%s\n", seriesTitle(s))
		for _, line := range seriesFacts(s) {
			b.WriteString(line + "\n")
		}
		b.WriteString("\n")
		t := newTable("STARTED", "RUN", "OUTCOME", "TOTAL", "HOLD", "DATA", "GROWN", "WRITTEN-TO")
		for _, p := range youngest(s.Points) {
			t.row(cells(p)...)
		}
		if err := t.write(&b, v); err != nil {
			return err
		}
	}
	for _, key := range d.Unreadable {
		fmt.Fprintf(&b, "\ncannot be read: %s\n", report.Name(key))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func cells(p history.Point) []any {
	hold, data := "", ""
	if p.HoldSeconds > 0 {
		hold = report.Duration(p.HoldSeconds)
	}
	if p.DataBytes > 0 {
		data = report.Bytes(p.DataBytes)
	}
	return []any{
		p.Started.UTC().Format("2006-01-02 15:04"), report.Name(string(p.Run)), report.Name(string(p.Outcome)),
		report.Duration(p.Seconds), hold, data, history.Grown(p.GrownBytes), p.Changed.Size(),
	}
}

func youngest(points []history.Point) []history.Point {
	return points[max(len(points)-shownPoints, 0):]
}

func seriesTitle(s history.Series) string {
	preposition := "to"
	if s.Operation == report.Backup || s.Operation == report.Archive || s.Operation == report.Copy ||
		s.Operation == report.Drill {
		preposition = "of"
	}
	plural := string(s.Operation) + "s"
	if s.Operation == report.Copy {
		plural = "copies"
	}
	return fmt.Sprintf("%s %s %s: %d done, %d failed", report.Name(plural), preposition,
		report.Name(s.Cluster.String()),
		s.Done, len(s.Points)-s.Done)
}

func seriesFacts(s history.Series) []string {
	var out []string
	if s.Done > 0 {
		out = append(out, "total: "+spreadText(s.Seconds))
	}
	if s.HoldSeconds != nil {
		out = append(out, "hold: "+spreadText(*s.HoldSeconds))
	}
	if len(s.Failed) > 0 {
		var kinds []string
		for _, kind := range slices.Sorted(maps.Keys(s.Failed)) {
			kinds = append(kinds, fmt.Sprintf("%d %s", s.Failed[kind], report.Name(cmp.Or(kind, "unknown"))))
		}
		out = append(out, "failed: "+strings.Join(kinds, ", "))
	}
	for _, slow := range s.Slower {
		out = append(out,
			fmt.Sprintf("slower: %s took %s in the last run, against a median of %s", report.Name(slow.Phase),
				report.Duration(slow.Seconds), report.Duration(slow.Median)))
	}
	if n := len(s.Points); n > 0 && s.Points[n-1].Outcome != phase.Done {
		out = append(out, "the last run failed")
	}
	return out
}

func spreadText(s history.Spread) string {
	return fmt.Sprintf("last %s, median %s, at most %s", report.Duration(s.Last), report.Duration(s.Median),
		report.Duration(s.Most))
}

func (d *trendDoc) markdown() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Runs since %s\n", d.Since.UTC().Format("2006-01-02"))
	for _, s := range d.Series {
		fmt.Fprintf(&b, "\n## %s\n\n", report.Escape(seriesTitle(s)))
		for _, line := range seriesFacts(s) {
			b.WriteString("- " + report.Escape(line) + "\n")
		}
		b.WriteString("\n| started | run | outcome | total | hold | data | grown | written to " +
			"|\n|---|---|---|--:|--:|--:|--:|--:|\n")
		for _, p := range youngest(s.Points) {
			for _, c := range cells(p) {
				b.WriteString("| " + report.Escape(fmt.Sprint(c)) + " ")
			}
			b.WriteString("|\n")
		}
	}
	return b.String(), nil
}

func (d *trendDoc) html() (string, error) {
	var b bytes.Buffer
	err := trendpage.Write(&b, d.Trend)
	return b.String(), err
}
