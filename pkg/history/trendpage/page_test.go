package trendpage_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/history/trendpage"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

func page(t *testing.T, runs []history.Run) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, trendpage.Write(&b, history.NewTrend(runs, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))))
	return b.String()
}

func TestWrite_TenThousandRuns_StaysSmall(t *testing.T) {
	t.Parallel()
	var runs []history.Run
	for i := range 10_000 {
		runs = append(runs, history.Run{
			Operation: report.Backup, Run: cluster.RunID(fmt.Sprint("r", i)), Backup: cluster.BackupID(fmt.Sprint("b", i)), Outcome: phase.Done,
			Seconds: 100, HoldSeconds: 2, Started: time.Date(2026, 1, 1, i, 0, 0, 0, time.UTC),
		})
	}
	text := page(t, runs)
	require.Less(t, len(text), 1<<20)
	require.Contains(t, text, "10000 done, 0 failed")
	require.Contains(t, text, "b9999")
	require.NotContains(t, text, ">b5<", "the youngest are listed")
}

func TestWrite_HostileNames_DoNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"markup": `"><script>x</script>`, "ansi": "\x1b[31m", "long": strings.Repeat("x", 10_000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := page(t, []history.Run{{
				Operation: report.Operation(text), Run: cluster.RunID(text), Backup: cluster.BackupID(text), Outcome: phase.Outcome(text), ErrorKind: text,
				Cluster: cluster.Name{Namespace: text, Name: text}, Seconds: 1,
			}})
			require.NotContains(t, got, "<script")
			require.NotContains(t, got, "\x1b")
			require.NotContains(t, got, strings.Repeat("x", 200))
		})
	}
}

func TestWrite_ShowsFailuresAndGrowth(t *testing.T) {
	t.Parallel()
	run := func(day int, data int64, kind string) history.Run {
		r := history.Run{Operation: report.Backup, Outcome: phase.Done, Seconds: 100, DataBytes: data, Started: time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)}
		if kind != "" {
			r.Outcome, r.ErrorKind, r.DataBytes = phase.Failed, kind, 0
		}
		return r
	}
	text := page(t, []history.Run{run(1, 100<<30, ""), run(2, 0, "unready"), run(3, 0, "denied"), run(4, 0, "unready"), run(5, 120<<30, ""), run(6, 117<<30, "")})
	for _, want := range []string{"1 denied", "2 unready", "+20 GiB", "-3 GiB", "data of 6 runs, at most 120 GiB"} {
		require.Contains(t, text, want)
	}
}

func TestWrite_ShowsHowMuchChanged(t *testing.T) {
	t.Parallel()
	last := history.Run{Operation: report.Backup, Outcome: phase.Done, Seconds: 100, DataBytes: 100e9, Changed: &report.Changed{Since: "b", Regions: 30, Of: 1000, DataBytes: 3 << 30}}
	before := history.Run{Operation: report.Backup, Outcome: phase.Done, Seconds: 100, DataBytes: 100e9}
	text := page(t, []history.Run{before, last})
	for _, want := range []string{"30 of 1000 regions", "written to of 2 runs, at most 3 GiB", `<td class="num">3 GiB</td>`} {
		require.Contains(t, text, want)
	}
}

func TestWrite_NoRuns_IsShown(t *testing.T) {
	t.Parallel()
	require.Contains(t, page(t, nil), "No run has a report.")
}
