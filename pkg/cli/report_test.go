package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// reported is a storage with eight backups of tidb/prod, of which the last is slow, a restore, and a failed run. The
// machine's cache is a folder of the test's own, so the test does not run beside others.
func reported(t *testing.T) string {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	url := "file://" + t.TempDir()
	store, err := objstore.Open(t.Context(), url, objstore.Config{})
	require.NoError(t, err)
	c := catalog.Catalog{Store: store}
	for i := range 8 {
		id := cluster.BackupID(fmt.Sprint("nightly-", i))
		slow := 100.0
		if i == 7 {
			slow = 400
		}
		run := cluster.RunID(fmt.Sprint("run-", i))
		require.NoError(t, c.PutReport(t.Context(), id, run, stored(t, report.Backup, id, run, i, slow, phase.Done)))
	}
	require.NoError(t, c.PutReport(t.Context(), "nightly-6", "run-r", stored(t, report.Restore, "nightly-6", "run-r", 9, 60, phase.Done)))
	require.NoError(t, c.PutReport(t.Context(), "nightly-f", "run-f", stored(t, report.Backup, "nightly-f", "run-f", 10, 3, phase.Failed)))
	return url
}

func stored(t *testing.T, op report.Operation, id cluster.BackupID, run cluster.RunID, hour int, seconds float64, outcome phase.Outcome) []byte {
	t.Helper()
	started := time.Now().UTC().Add(time.Duration(hour-24) * time.Hour)
	name := report.VolumeSnapshots
	if op == report.Restore {
		name = report.StartTiKV
	}
	h := report.Header{
		Operation: op, Run: run, Backup: id, Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, Outcome: outcome, Started: started,
		Finished: started.Add(time.Duration(seconds) * time.Second), TiKVs: 3, Volumes: 3, DataBytes: 300e9, DataPerVolumeBytes: 100e9,
	}
	if outcome == phase.Failed {
		h.Error, h.ErrorKind = "no answer", "limited"
	}
	var b bytes.Buffer
	require.NoError(t, report.New(h, phase.Timings{{Phase: name, Start: started, Seconds: seconds, Outcome: outcome}}).JSON(&b))
	return b.Bytes()
}

func TestReport_ABackup_InEveryFormat(t *testing.T) {
	url := reported(t)
	for format, want := range map[string][]string{
		"table":    {"backup nightly-6 of tidb/prod: done", "restore of nightly-6 to tidb/prod: done"},
		"markdown": {"## backup nightly-6 of tidb/prod: done"},
		"html":     {"<!doctype html>", "restore of nightly-6 to tidb/prod", `href="#run-2"`},
		"json":     {`"kind": "ReportList"`, `"run": "run-r"`},
	} {
		t.Run(format, func(t *testing.T) {
			code, out, stderr := run(t, "report", "nightly-6", "--storage", url, "--format", format)
			require.Zero(t, code, stderr)
			for _, text := range want {
				require.Contains(t, out, text)
			}
		})
	}
	code, out, stderr := run(t, "report", "run-r", "--storage", url)
	require.Zero(t, code, stderr)
	require.NotContains(t, out, "backup nightly-6 of", "a run is shown alone")
	require.Contains(t, out, "1 more runs of backup nightly-6: tisnap report nightly-6")
	file := filepath.Join(t.TempDir(), "r.html")
	code, out, stderr = run(t, "report", "run-f", "--storage", url, "--format", "html", "--out", file)
	require.Zero(t, code, stderr)
	require.Empty(t, out)
	body, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(body), "The run failed (limited)")
}

func TestReport_Trend_NamesWhatFailedAndWhatIsSlower(t *testing.T) {
	url := reported(t)
	for format, want := range map[string]string{"table": "slower: volume snapshots took 6m40s in the last run, against a median of 1m40s", "markdown": "- failed: 1 limited", "html": "Slower than its own median"} {
		t.Run(format, func(t *testing.T) {
			code, out, stderr := run(t, "report", "--since", "30d", "--storage", url, "--format", format)
			require.Zero(t, code, stderr)
			require.Contains(t, out, want)
		})
	}
	code, out, stderr := run(t, "report", "--storage", url, "-o", "json")
	require.Zero(t, code, stderr)
	var doc struct {
		Kind   string
		Series []struct {
			Done   int
			Failed map[string]int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out), &doc))
	require.Equal(t, "Trend", doc.Kind)
	require.Equal(t, 8, doc.Series[0].Done)
	require.Equal(t, map[string]int{"limited": 1}, doc.Series[0].Failed)
	cached, err := filepath.Glob(filepath.Join(os.Getenv("XDG_CACHE_HOME"), "tisnap", "runs-*.json.gz"))
	require.NoError(t, err)
	require.Len(t, cached, 1)
}

func TestEstimate_OfAStorage_IsFittedToItsRuns(t *testing.T) {
	url := reported(t)
	code, out, stderr := run(t, "estimate", "backup", "tidb/prod", "--storage", url)
	require.Zero(t, code, stderr)
	require.Contains(t, out, "times from the last 8 backups of this storage")
	require.Regexp(t, `volume snapshots +1m40`, out)
	code, out, stderr = run(t, "estimate", "restore", "nightly-6", "--storage", url)
	require.Zero(t, code, stderr)
	require.Contains(t, out, "times from the published tables", "one restore is too few")
	code, named, stderr := run(t, "estimate", "backup", "prod", "-n", "tidb", "--storage", url)
	require.Zero(t, code, stderr)
	require.Contains(t, named, "times from the last 8 backups of this storage")
	code, _, stderr = run(t, "estimate", "backup", "prod", "--context", "none", "--storage", url)
	require.EqualValues(t, 2, code, "its namespace is unknown")
	require.Contains(t, stderr, "write it as NAMESPACE/NAME")
	code, _, stderr = run(t, "estimate", "backup", "tidb/other", "--storage", url)
	require.EqualValues(t, 4, code)
	require.Contains(t, stderr, "hint: give the size instead")
}

func TestReport_WrongFlags_AreUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"a format": {"report", "b", "--format", "pdf"}, "a time": {"report", "--since", "yesterday"}, "both": {"report", "b", "--since", "30d"},
		"open what is no page": {"report", "b", "--open", "--format", "json"}, "no storage": {"report"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, _, stderr := run(t, args...)
			require.EqualValues(t, 2, code, stderr)
		})
	}
}
