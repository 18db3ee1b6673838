package metrics_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/metrics"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func example() *report.Report {
	start := time.Date(2026, 11, 22, 1, 0, 0, 0, time.UTC)
	return &report.Report{
		Header: report.Header{
			Operation: report.Backup, Run: "r1", Backup: "nightly-1", Cluster: cluster.Name{Namespace: "tidb", Name: "prod"},
			Outcome: phase.Done, Started: start, Finished: start.Add(time.Hour), TiKVs: 3, Volumes: 6, DataBytes: 1 << 40,
			EarlyApply: &report.EarlyApply{State: "unproven", Stores: 1},
			Hold:       &report.Hold{Seconds: 4.5, CutSeconds: 1.25, Attempts: 2},
		},
		TotalSeconds: 3600,
		Phases:       []report.Phase{{Name: "create task", Seconds: 3}, {Name: "volume snapshots", Seconds: 2}, {Name: "volume snapshots", Seconds: 3590}},
	}
}

const exampleText = `tisnap_run_cluster_held{cluster="tidb/prod",operation="backup"} 0
tisnap_run_cut_duration_seconds{cluster="tidb/prod",operation="backup"} 1.25
tisnap_run_data_bytes{cluster="tidb/prod",operation="backup"} 1.099511627776e+12
tisnap_run_duration_seconds{cluster="tidb/prod",operation="backup"} 3600
tisnap_run_early_apply_unproven{cluster="tidb/prod",operation="backup"} 1
tisnap_run_end_timestamp_seconds{cluster="tidb/prod",operation="backup"} 1.7953128e+09
tisnap_run_exit_code{cluster="tidb/prod",operation="backup"} 0
tisnap_run_hold_attempts{cluster="tidb/prod",operation="backup"} 2
tisnap_run_hold_duration_seconds{cluster="tidb/prod",operation="backup"} 4.5
tisnap_run_phase_duration_seconds{cluster="tidb/prod",operation="backup",phase="create task"} 3
tisnap_run_phase_duration_seconds{cluster="tidb/prod",operation="backup",phase="volume snapshots"} 3592
tisnap_run_replicas_rebuilt{cluster="tidb/prod",operation="backup"} 0
tisnap_run_start_timestamp_seconds{cluster="tidb/prod",operation="backup"} 1.7953092e+09
tisnap_run_success{cluster="tidb/prod",operation="backup"} 1
tisnap_run_tikvs{cluster="tidb/prod",operation="backup"} 3
tisnap_run_volumes{cluster="tidb/prod",operation="backup"} 6
tisnap_run_warnings{cluster="tidb/prod",operation="backup"} 0
`

// written is what a set looks like in a file, without the comments.
func written(t *testing.T, s *metrics.Set) (values, whole string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tisnap.prom")
	require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	require.NoError(t, metrics.WriteFile(path, s))
	body, err := os.ReadFile(path)
	require.NoError(t, err)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
	require.NoError(t, err)
	require.Equal(t, []string{path}, left, "nothing half written is left")
	return regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(body), ""), string(body)
}

func TestWriteFile_IsWhatNodeExporterReads(t *testing.T) {
	t.Parallel()
	s := metrics.NewSet()
	s.AddReport(example())
	s.AddExit(example(), 0, false)
	values, whole := written(t, s)
	require.Equal(t, exampleText, values)
	problems, err := promlint.New(strings.NewReader(whole)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestWriteFile_NoSuchFolder_IsAnError(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, metrics.WriteFile(filepath.Join(t.TempDir(), "none", "x.prom"), metrics.NewSet()), "write metrics of")
}

func TestPush_ReplacesTheInstance_AndRetries(t *testing.T) {
	t.Parallel()
	var requests []string
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests, bodies = append(requests, r.Method+" "+r.URL.Path), append(bodies, string(body))
		if len(requests) == 1 {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer server.Close()
	s := metrics.NewSet()
	s.AddReport(example())
	require.NoError(t, metrics.PushQuickly(t.Context(), server.URL, "tidb/prod backup", s))
	require.Len(t, requests, 2)
	assert.Equal(t, "PUT /metrics/job/tisnap/instance@base64/dGlkYi9wcm9kIGJhY2t1cA", requests[1])
	assert.Equal(t, bodies[0], bodies[1])
	assert.NotEmpty(t, bodies[0])
}

func TestPush_Refused_NamesTheHostAlone(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	err := metrics.PushQuickly(t.Context(), server.URL+"/secret-token", "x", metrics.NewSet())
	require.ErrorContains(t, err, "push metrics of gateway 127.0.0.1:")
	require.ErrorContains(t, err, "it answered 404")
	assert.NotContains(t, err.Error(), "secret")
}

func TestAddGarbage_EveryKindAndActionIsThere(t *testing.T) {
	t.Parallel()
	s := metrics.NewSet()
	s.AddGarbage(&gc.Report{
		Items:   []gc.Item{{Kind: gc.KindSnapshot, Action: gc.ActionDelete}, {Kind: gc.KindSnapshot, Action: gc.ActionDelete}, {Kind: gc.KindVolume, Action: gc.ActionKeep}},
		Missing: []gc.Missing{{Backup: "b"}},
	}, false, time.Unix(1000, 0))
	values, _ := written(t, s)
	assert.Contains(t, values, `tisnap_gc_items{action="delete",kind="snapshot"} 2`)
	assert.Contains(t, values, `tisnap_gc_items{action="keep",kind="volume"} 1`)
	assert.Contains(t, values, `tisnap_gc_items{action="deleted",kind="fast-restore"} 0`)
	assert.Contains(t, values, "tisnap_gc_broken_backups 1\n")
	assert.Contains(t, values, "tisnap_gc_success 0\n")
	assert.Equal(t, 20, strings.Count(values, "tisnap_gc_items{"))
}

// Names come from a storage that others can write to.
func TestLabels_HostileNames_AreCleanedAndCut(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"markup": "<script>alert(1)</script>", "long": strings.Repeat("ü", 10_000), "lines": "a\nb\r\nc{}\"",
		"escapes": "\x1b[31mred\x1b[0m", "not UTF-8": "a\xff\xfeb", "direction": "a\u202eb",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := example()
			r.Cluster.Name, r.Phases[0].Name = value, value
			s := metrics.NewSet()
			s.AddReport(r)
			values, whole := written(t, s)
			require.NoError(t, s.Err())
			_, err := promlint.New(strings.NewReader(whole)).Lint()
			require.NoError(t, err, "it can be parsed")
			for _, line := range strings.Split(strings.TrimSpace(values), "\n") {
				assert.Regexp(t, `^tisnap_[a-z_]+\{.*\} [0-9.e+]+$`, line)
				assert.Less(t, len(line), 600)
			}
			assert.NotContains(t, values, "\x1b")
			assert.NotContains(t, values, "\u202e")
		})
	}
}

// Two clusters whose names differ in what is cleaned away alone are one series, not a scrape that fails.
func TestSet_NamesThatCollide_AreShownOnce(t *testing.T) {
	t.Parallel()
	s := metrics.NewSet()
	s.Add("tisnap_lock_held", 1, "a\x1bb")
	s.Add("tisnap_lock_held", 0, "ab")
	values, _ := written(t, s)
	assert.Equal(t, "tisnap_lock_held{cluster=\"ab\"} 1\n", values)
}

func TestAddReport_ManyPhases_AreBounded(t *testing.T) {
	t.Parallel()
	r := example()
	for i := range 1000 {
		r.Phases = append(r.Phases, report.Phase{Name: fmt.Sprintf("phase %d", i), Seconds: 1})
	}
	s := metrics.NewSet()
	s.AddReport(r)
	assert.Less(t, s.Len(), 60)
}

func TestSet_UnknownNameOrLabels_IsAnError(t *testing.T) {
	t.Parallel()
	s := metrics.NewSet()
	s.Add("tisnap_none", 1)
	require.ErrorContains(t, s.Err(), "tisnap_none")
	require.Error(t, metrics.WriteFile(filepath.Join(t.TempDir(), "x.prom"), s))
	s = metrics.NewSet()
	s.Add("tisnap_lock_held", 1)
	require.Error(t, s.Err())
	s = metrics.NewSet()
	s.Complete()
	s.Add("tisnap_lock_held", 1, "tidb/prod")
	require.ErrorContains(t, s.Err(), "tisnap_lock_held")
}

// The names follow Prometheus' conventions: promlint reads every metric of the table.
func TestTable_PassesPromlint(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	seen := map[string]bool{}
	for _, m := range metrics.Table() {
		assert.False(t, seen[m.Name], "%s is there twice", m.Name)
		seen[m.Name] = true
		assert.True(t, strings.HasPrefix(m.Name, "tisnap_"))
		assert.False(t, strings.HasSuffix(m.Help, "."))
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s gauge\n%s 1\n", m.Name, m.Help, m.Name, m.Name)
	}
	problems, err := promlint.New(strings.NewReader(text.String())).Lint()
	require.NoError(t, err)
	assert.Empty(t, problems)
}
