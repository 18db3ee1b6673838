package htmlreport_test

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/report/htmlreport"
	"github.com/tisnap/tisnap/pkg/report/reporttest"
)

// rows are the rows of the section's tables, each cell's text within bars; "" marks a text that is in no table.
func rows(t *testing.T, page, heading string) []string {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(regexp.MustCompile(`<(meta|link)( [^>]*)>`).ReplaceAllString(page, `<$1$2/>`)))
	d.Entity = xml.HTMLEntity
	var out []string
	var at, row string
	inHeading, in, cell := false, false, false
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			require.NotEmpty(t, out, "no section %q", heading)
			return out
		}
		require.NoError(t, err)
		switch token := token.(type) {
		case xml.StartElement:
			switch token.Name.Local {
			case "h2", "h3":
				inHeading, at = true, ""
			case "tr":
				row = ""
			case "td", "th":
				row, cell = row+"|", true
			case "li":
				row, cell = "", true
			}
		case xml.EndElement:
			switch token.Name.Local {
			case "h2", "h3":
				inHeading, in = false, at == heading
			case "td", "th":
				cell = false
			case "li", "tr":
				cell = false
				if in {
					out = append(out, row)
				}
			}
		case xml.CharData:
			if inHeading {
				at += string(token)
			} else if cell {
				row += string(token)
			}
		}
	}
}

// The model's estimate stands beside what was, phase by phase, with both shares; then what a person has to know.
func TestWrite_Sections_HaveTheRunsFigures(t *testing.T) {
	t.Parallel()
	backup := written(t, htmlreport.Page{Reports: []*report.Report{reporttest.Backup(3)}, Published: true})
	restore := written(t, htmlreport.Page{Reports: []*report.Report{reporttest.Restore(3)}, Published: true})
	failed := written(t, htmlreport.Page{Reports: []*report.Report{reporttest.Failed()}})
	for name, row := range map[string]struct{ page, heading, want string }{
		"expected of a phase":     {backup, "Expected and actual", "|volume snapshots|14m50s|11m40s - 18m20s|98.9%|14m16.4s|99.3%|-4%|as expected"},
		"expected of a short one": {backup, "Expected and actual", "|pause scheduling|<1s|<1s|<0.1%|250ms|<0.1%|-|as expected"},
		"expected of the run":     {backup, "Expected and actual", "|total|15m00s|11m40s - 20m00s|100%|14m22.5s|100%|-4%|as expected"},
		"published form":          {restore, "In the published form", "|this run|2.7 TiB|931 GiB|3|53s|6.4s|2m55.2s|8m32.9s|58s|13m26s"},
		"its shares":              {restore, "In the published form", "|share||||6.6%|0.8%|21.7%|63.6%|7.2%|100%"},
		"the published case":      {restore, "In the published form", "|published|19 TiB|931 GiB|20|1m00s|6s|3m10s|13m06s|1m00s|18m16s"},
		"a warning":               {restore, "Warnings", "the peers of 2 regions disagreed about their range"},
		"the attempts' numbers":   {failed, "Timeline", "|pause schedulingattempt 1|+3s|300ms|0.5%|"},
		"a thrown away attempt":   {failed, "Discarded attempts", "|2|2026-08-22 10:00:34 UTC|cut|snapshot volumes store 4 on i-0abc: the lease of store 4 (10.0.1.7:20160) ended while the volumes were cut"},
		"a store of the hold":     {backup, "Stores during the hold", "|store 2 prod-tikv-1|slowest 175ms|slowest 280ms|143ms|slowest 248ms|110ms|215ms"},
		"a store of the restore":  {restore, "Stores during the restore", "|store 1 prod-tikv-0|20ms|125ms|230ms|92ms|198ms|slowest 302ms"},
		"a phase of the timeline": {backup, "Timeline", "|volume snapshots|+5s|14m16.4s|99.3%|"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, rows(t, row.page, row.heading), row.want)
		})
	}
}

// How long a run took to fail is not compared with how long it should have taken.
func TestWrite_FailedRun_HasNoExpectation(t *testing.T) {
	t.Parallel()
	r := reporttest.Backup(5)
	r.Outcome = phase.Failed
	page := written(t, htmlreport.Page{Reports: []*report.Report{r}})
	require.NotContains(t, page, "Expected and actual")
	require.NotContains(t, page, "expected 15m")
}

func TestWrite_ExpectedOfAWS_IsNotComparedElsewhere(t *testing.T) {
	t.Parallel()
	compared, other := reporttest.Backup(3), reporttest.Backup(3)
	other.Expected.NotAWS = true
	for text, is := range map[string]bool{"It is a model of AWS: not comparable here.": true, "expected 15m": false, "-4%": false} {
		require.Equal(t, is, strings.Contains(written(t, htmlreport.Page{Reports: []*report.Report{other}}), text), text)
		require.NotEqual(t, is, strings.Contains(written(t, htmlreport.Page{Reports: []*report.Report{compared}}), text), text)
	}
}

// What a restore did with the regions is among its facts, as in the table and in Markdown.
func TestWrite_Regions_AreAmongTheFacts(t *testing.T) {
	t.Parallel()
	r := reporttest.Restore(3)
	without := written(t, htmlreport.Page{Reports: []*report.Report{r}})
	r.Regions = &report.Regions{Total: 50_000, Unchanged: 45_000, Flashed: 5_000, Checked: 16, SavedSeconds: 3881.7}
	page := written(t, htmlreport.Page{Reports: []*report.Report{r}})
	facts := r.Regions.Facts()
	require.Len(t, facts, 3)
	for _, f := range facts {
		require.Contains(t, page, "<dt>"+f[0]+"</dt><dd>"+f[1]+"</dd>")
		require.NotContains(t, without, f[1])
	}
}

// Where the hold is, is explained for runs that have one.
func TestTimeline_NoHold_IsNotExplained(t *testing.T) {
	t.Parallel()
	for of, held := range map[*report.Report]bool{reporttest.Backup(3): true, reporttest.Drill(3): false, reporttest.Archive(3): false} {
		var page strings.Builder
		require.NoError(t, htmlreport.Write(&page, htmlreport.Page{Reports: []*report.Report{of}}))
		require.Equal(t, held, strings.Contains(page.String(), "The hold and the cut are parts"), of.Operation)
		require.Equal(t, held, strings.Contains(page.String(), "In the published form"), of.Operation)
	}
}
