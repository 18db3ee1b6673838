package htmlreport_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/report/htmlreport"
	"github.com/tisnap/tisnap/pkg/report/reporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func written(t testing.TB, p htmlreport.Page) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, htmlreport.Write(&b, p))
	return b.String()
}

func TestWrite_IsWellFormedAndNeedsNothingElse(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]htmlreport.Page{
		"nothing":              {},
		"backup":               {Reports: []*report.Report{reporttest.Backup(30)}, Published: true},
		"three attempts":       {Reports: []*report.Report{reporttest.Failed()}},
		"backup and a restore": {Reports: []*report.Report{reporttest.Backup(3), reporttest.Restore(3)}, Published: true, Home: &htmlreport.Link{Text: "all backups", Href: "/"}},
		"an empty report":      {Reports: []*report.Report{report.New(report.Header{}, nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := written(t, page)
			wellFormed(t, text)
			require.NotRegexp(t, `(?i)<script|https?://|<iframe|@import|url\(`, text, "no script and nothing from elsewhere")
			for _, id := range regexp.MustCompile(`href="#([^"]+)"|aria-labelledby="([^"]+)"`).FindAllStringSubmatch(text, -1) {
				require.Equal(t, 1, strings.Count(text, `id="`+id[1]+id[2]+`"`), id)
			}
		})
	}
}

// wellFormed reads the document with a strict reader: every element is closed, every attribute quoted.
func wellFormed(t testing.TB, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(regexp.MustCompile(`<(meta|link)( [^>]*)>`).ReplaceAllString(text, `<$1$2/>`)))
	d.Entity = xml.HTMLEntity
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}

func TestWrite_BarsOfPhases_AddUpToTheTotal(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]*report.Report{"backup": reporttest.Backup(5), "restore": reporttest.Restore(5), "failed": reporttest.Failed()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := written(t, htmlreport.Page{Reports: []*report.Report{r}})
			var sum float64
			for _, m := range regexp.MustCompile(`data-seconds="([0-9.]+)" data-kind="(phase|rest)"`).FindAllStringSubmatch(text, -1) {
				seconds, err := strconv.ParseFloat(m[1], 64)
				require.NoError(t, err)
				sum += seconds
			}
			require.InDelta(t, r.TotalSeconds, sum, 0.01*r.TotalSeconds)
		})
	}
}

func TestWrite_HostileTexts_DoNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"markup": `"><script>alert(1)</script><img src=x onerror=alert(1)>`, "ansi": "\x1b[2J\x1b[31mred\x07", "lines": "a\nb\r\nc\u2028d\u202eevil",
		"long": strings.Repeat("x", 10_000), "attribute": `' onmouseover='alert(1)`, "not utf-8": "\xff\xfe",
		"secrets": "Get https://user:hIdDeN@h/k?X-Amz-Security-Token=hIdDeN&X-Amz-Signature=hIdDeN: EOF",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := reporttest.Failed()
			r.Run, r.Backup, r.Outcome, r.ErrorKind = cluster.RunID(text), cluster.BackupID(text), phase.Outcome(text), text
			r.Cluster, r.Error = cluster.Name{Namespace: text, Name: text}, text
			r.Warnings, r.Checks = []string{text}, []string{text}
			r.Phases[0].Name, r.Phases[0].Steps[0].Name, r.Operation = text, text, report.Operation(text)
			r.Hold.Failed[0].Error, r.Hold.Stores[0].Pod, r.Hold.Stores[0].Parts[0].Name = text, text, text
			r.Expected = &report.Expected{Model: text, Seconds: 1, Phases: []report.ExpectedPhase{{Name: text}}}
			page := written(t, htmlreport.Page{Reports: []*report.Report{r, r}})
			wellFormed(t, page)
			require.NotContains(t, page, "<script")
			require.NotContains(t, page, "<img")
			require.NotContains(t, page, "hIdDeN")
			require.NotRegexp(t, `<[^>]* on[a-z]+=`, page)
			require.NotRegexp(t, "[\x00-\x09\x0b-\x1f\u2028\u202e]", page)
			require.NotContains(t, page, strings.Repeat("x", 2001))
			require.Less(t, len(page), 200_000)
		})
	}
}

func TestWrite_ThreeHundredStores_StaysSmallAndNamesTheSlowest(t *testing.T) {
	t.Parallel()
	backup, restore := reporttest.Backup(300), reporttest.Restore(300)
	backup.Hold.Stores[77].Parts[3].Seconds = 9
	fast := backup.Hold.Stores[5].Parts // slowest in one part, and fast in sum
	for i := range fast {
		fast[i].Seconds = .001
	}
	fast[0].Seconds = .5
	text := written(t, htmlreport.Page{Reports: []*report.Report{backup, restore}})
	require.Less(t, len(text), 2<<20)
	require.Contains(t, text, "wait apply 9s (store 78 prod-tikv-77)")
	require.Contains(t, text, " 500ms (store 6 prod-tikv-5)")
	require.Contains(t, text, "288 other stores")
	for _, folded := range regexp.MustCompile(`(?s)<details>.*?</details>`).FindAllString(text, -1) {
		require.NotContains(t, folded, "slowest", "a store that is named is not folded away")
	}
}

func TestWrite_WriterFails_ErrorIsReturned(t *testing.T) {
	t.Parallel()
	require.Error(t, htmlreport.Write(failing{}, htmlreport.Page{Reports: []*report.Report{reporttest.Backup(1)}}))
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("disk full") }
