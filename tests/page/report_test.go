package page_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/history/trendpage"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/report/htmlreport"
	"github.com/tisnap/tisnap/pkg/report/reporttest"
)

// maxSize is what a report may be as a file.
const maxSize = 2_000_000

// saved writes a page into a file of the test and returns its address.
func saved(t *testing.T, write func(*bytes.Buffer) error) string {
	t.Helper()
	var page bytes.Buffer
	require.NoError(t, write(&page))
	require.Less(t, page.Len(), maxSize)
	file := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(file, page.Bytes(), 0o600))
	return "file://" + file
}

func TestReport_InABrowser(t *testing.T) {
	t.Parallel()
	for name, reports := range map[string][]*report.Report{
		"backup-and-restore": {reporttest.Backup(3), reporttest.Restore(3)},
		"300-stores":         {reporttest.Backup(300), reporttest.Restore(300)},
		"three-attempts":     {reporttest.Failed()},
		"beside":             {reporttest.Archive(20), reporttest.Copy(20), reporttest.Drill(3)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := saved(t, func(w *bytes.Buffer) error {
				return htmlreport.Write(w, htmlreport.Page{Reports: reports, Published: true})
			})
			b := newTab(t)
			b.open(url)
			require.Equal(t, len(reports), eval[int](b, `document.querySelectorAll("article").length`))
			barsAddUp(b, reports)
			seen(b, ".gantt", "th", "td:nth-child(3)", "td:nth-child(4)") // the time and its share
			legible(b)
			b.accessible()
			b.pictures("report-" + name)
			b.stayed(url)
		})
	}
}

// barsAddUp measures the bars as they are drawn: those of a run's phases, and the time between them, are its whole length.
func barsAddUp(b *tab, reports []*report.Report) {
	b.t.Helper()
	drawn := eval[[]float64](b, `[...document.querySelectorAll("section.time .gantt")].map(table => {
		let sum = 0;
		for (const row of table.querySelectorAll("tr[data-kind=phase], tr[data-kind=rest]")) {
			const bar = row.querySelector("rect");
			sum += bar ? bar.getBoundingClientRect().width / row.querySelector("svg").getBoundingClientRect().width
				: row.dataset.seconds / [...table.querySelectorAll("tbody tr")].reduce((s, r) => s + (r.matches("[data-kind=phase], [data-kind=rest]") ? +r.dataset.seconds : 0), 0);
		}
		return sum;
	})`)
	require.Len(b.t, drawn, len(reports))
	for i, share := range drawn {
		require.InDelta(b.t, 1, share, 0.03, "the bars of report %d, of its length", i+1)
	}
	sums := eval[[]float64](b, `[...document.querySelectorAll("section.time .gantt")].map(table =>
		[...table.querySelectorAll("tr[data-kind=phase], tr[data-kind=rest]")].reduce((s, r) => s + +r.dataset.seconds, 0))`)
	for i, r := range reports {
		require.InDelta(b.t, r.TotalSeconds, sums[i], 0.01*r.TotalSeconds)
	}
}

// fits checks that nothing but a table's own region has to be scrolled sideways, on a desk and on a phone.
func fits(b *tab) {
	b.t.Helper()
	for _, width := range []int64{phone, desk} {
		b.size(width, 900)
		require.LessOrEqual(b.t, eval[int64](b, `document.documentElement.scrollWidth`), width)
	}
}

// legible checks that the page fits, and that no word is broken in its middle for lack of width.
func legible(b *tab) {
	b.t.Helper()
	fits(b)
	for _, width := range []int64{desk, phone} {
		b.size(width, 900)
		require.Empty(b.t, eval[[]string](b, broken), "words that have a part on the next line, %d pixels wide", width)
	}
}

// broken lists the words, of a length that fits everywhere, that begin on one line and end on another.
const broken = `(() => {
	const found = [], texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), range = document.createRange();
	while (texts.nextNode()) {
		for (const word of texts.currentNode.data.matchAll(/(?<![\p{L}\p{N}])[\p{L}\p{N}.:%]{2,14}/gu)) {
			if (/[\p{L}\p{N}]/u.test(texts.currentNode.data[word.index + 14] || "")) continue;
			range.setStart(texts.currentNode, word.index);
			range.setEnd(texts.currentNode, word.index + word[0].length);
			if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) found.push(word[0]);
		}
	}
	return found;
})()`

// seen checks that a phone shows these parts of each row of a table without being scrolled.
func seen(b *tab, table string, parts ...string) {
	b.t.Helper()
	b.size(phone, 900)
	for _, part := range parts {
		over := eval[[]float64](b, fmt.Sprintf("[...document.querySelectorAll(%q)].map(e => e.getBoundingClientRect().right - parseFloat(getComputedStyle(e).paddingRight) - e.closest('.scroll').getBoundingClientRect().right)", table+" tbody "+part))
		require.NotEmpty(b.t, over, part)
		require.LessOrEqual(b.t, slices.Max(over), 0.0, "how far %s of %s are beyond the edge", part, table)
	}
}

// Everything can be reached and done without a mouse, and what has the focus is seen.
func TestReport_ByKeyboard(t *testing.T) {
	t.Parallel()
	url := saved(t, func(w *bytes.Buffer) error {
		return htmlreport.Write(w, htmlreport.Page{Reports: []*report.Report{reporttest.Backup(30), reporttest.Restore(30)}, Published: true})
	})
	b := newTab(t)
	b.open(url)
	b.do(chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "skip", eval[string](b, `document.activeElement.className`))
	require.GreaterOrEqual(t, eval[float64](b, `document.activeElement.getBoundingClientRect().left`), 0.0, "the link is seen when it has the focus")
	b.do(chromedp.KeyEvent(kb.Enter))
	require.Equal(t, "#main", eval[string](b, `location.hash`))
	reached := focused(b)
	require.Equal(t, eval[int](b, `document.querySelectorAll("main a, main summary, main :not(details) > [tabindex]").length`), len(reached), "%v", reached)
	for _, r := range reached {
		require.True(t, r.Seen, "%s has the focus, and nothing shows it", r.Name)
	}
	b.do(chromedp.Focus(chromedp.CSS("summary")), chromedp.KeyEvent(kb.Enter))
	require.True(t, eval[bool](b, `document.querySelector("details").open`))
	b.size(phone, 900)
	b.do(chromedp.Focus(chromedp.CSS(".scroll")), chromedp.KeyEvent(kb.ArrowRight))
	b.do(chromedp.Poll[chromedp.Void](`document.querySelector(".scroll").scrollLeft > 0`))
	b.stayed(url)
}

// stop is what the Tab key comes to.
type stop struct {
	Name string
	Seen bool // there is an outline around it
}

// focused presses Tab until the page has no more to come to.
func focused(b *tab) []stop {
	b.t.Helper()
	var out []stop
	for range 200 {
		b.do(chromedp.KeyEvent(kb.Tab))
		s := eval[stop](b, `(e => ({Name: e === document.body || !e.closest("main") ? "" : e.tagName + " " + (e.ariaLabel || e.textContent),
			Seen: getComputedStyle(e).outlineStyle !== "none" && parseFloat(getComputedStyle(e).outlineWidth) > 0}))(document.activeElement)`)
		if s.Name == "" {
			return out
		}
		out = append(out, s)
	}
	b.t.Fatal("the Tab key comes to no end")
	return nil
}

// On paper the page is white, and nothing is folded or cut off.
func TestReport_Printed(t *testing.T) {
	t.Parallel()
	url := saved(t, func(w *bytes.Buffer) error {
		return htmlreport.Write(w, htmlreport.Page{Reports: []*report.Report{reporttest.Backup(300)}})
	})
	b := newTab(t)
	b.open(url)
	b.size(794, 1123) // A4
	b.theme("dark", "print")
	require.Equal(t, "rgb(255, 255, 255)", eval[string](b, `getComputedStyle(document.body).backgroundColor`))
	require.Equal(t, "rgb(27, 30, 36)", eval[string](b, `getComputedStyle(document.body).color`), "black on white in the dark theme, too")
	require.Greater(t, eval[float64](b, `document.querySelector("details tbody tr:last-child").getBoundingClientRect().height`), 0.0, "the folded stores are printed")
	require.LessOrEqual(t, eval[float64](b, `Math.max(...[...document.querySelectorAll("table")].map(t => t.getBoundingClientRect().right))`), 794.0, "no table is wider than the paper")
	b.picture("report-printed")
	pdf, err := chromedp.Run(b.ctx, chromedp.PrintToPDF())
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(pdf, []byte("%PDF-")))
}

// What others wrote into names and errors stays text.
func TestReport_HostileTexts_DoNothing(t *testing.T) {
	t.Parallel()
	const attack = `"><script>document.title="owned"</script><img src=x onerror="document.title='owned'"><a href="javascript:document.title='owned'">x</a>`
	r := reporttest.Failed()
	r.Run, r.Backup, r.ErrorKind, r.Error = attack, attack, attack, attack+strings.Repeat("x", 10_000)
	r.Cluster = cluster.Name{Namespace: attack, Name: attack}
	r.Warnings, r.Checks, r.Phases[0].Name, r.Hold.Stores[0].Pod = []string{attack}, []string{attack}, attack, attack
	url := saved(t, func(w *bytes.Buffer) error {
		return htmlreport.Write(w, htmlreport.Page{Reports: []*report.Report{r, r}})
	})
	b := newTab(t)
	b.open(url)
	require.Zero(t, eval[int](b, `document.querySelectorAll("script, img, [onerror], a[href^=javascript]").length`))
	require.NotEqual(t, "owned", eval[string](b, `document.title`))
	fits(b)
	b.stayed(url)
}

func TestTrend_InABrowser(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var runs []history.Run
	for i := range 60 {
		r := history.Run{
			Operation: report.Backup, Run: cluster.RunID(fmt.Sprint("r", i)), Backup: cluster.BackupID(fmt.Sprint("nightly-", i)), Outcome: phase.Done,
			Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, Seconds: 600 + float64(i*37%200), HoldSeconds: 2 + float64(i%7)/5, DataBytes: int64(3e12) + int64(i)*2e10,
			Changed: &report.Changed{Since: cluster.BackupID(fmt.Sprint("nightly-", i-1)), Regions: 300 + i*53%400, Of: 30_000, DataBytes: int64(3e10) + int64(i*53%400)*1e8},
			Started: began.AddDate(0, 0, i),
		}
		if i%17 == 16 {
			r.Outcome, r.ErrorKind = phase.Failed, "unready"
		}
		runs = append(runs, r)
	}
	url := saved(t, func(w *bytes.Buffer) error { return trendpage.Write(w, history.NewTrend(runs, began)) })
	b := newTab(t)
	b.open(url)
	legible(b)
	b.accessible()
	b.pictures("trend")
	b.stayed(url)
}
