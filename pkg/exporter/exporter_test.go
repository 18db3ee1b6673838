package exporter_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/estimate"
	"github.com/tisnap/tisnap/pkg/exporter"
	"github.com/tisnap/tisnap/pkg/exporter/exportertest"
	"github.com/tisnap/tisnap/pkg/metrics"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// example is an exporter that has read the example storage.
func example(t testing.TB, o exporter.Options) *exporter.Exporter {
	t.Helper()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(t.Context(), store)
	s.Example(time.Now())
	require.NoError(t, s.Err())
	var err error
	o.Prices, err = estimate.DefaultPrices()
	require.NoError(t, err)
	x := exporter.New(store, o)
	require.NoError(t, x.Refresh(t.Context()))
	return x
}

// get asks the exporter as a local browser or scraper does.
func get(t testing.TB, x *exporter.Exporter, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Host = "localhost:9090"
	x.Handler().ServeHTTP(w, r)
	return w
}

func scrape(t testing.TB, x *exporter.Exporter) string {
	t.Helper()
	w := get(t, x, "/metrics")
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	return w.Body.String()
}

func TestMetrics_DescribeTheStorage(t *testing.T) {
	t.Parallel()
	text := scrape(t, example(t, exporter.Options{Version: "v1.2.3"}))
	for _, line := range []string{
		`tisnap_backups{cluster="tidb/prod",state="sealed"} 40`,
		`tisnap_backups{cluster="tidb/prod",state="damaged"} 0`,
		`tisnap_snapshots{cluster="tidb/prod"} 240`,
		`tisnap_snapshots_month_cost_usd{bound="low",cluster="tidb/prod"} 153.6`, // 3 TiB at 0.05 USD
		`tisnap_snapshots_month_cost_usd{bound="high",cluster="tidb/prod"} 6144`, // 40 times as much
		`tisnap_run_success{cluster="tidb/prod",operation="backup"} 1`,
		`tisnap_run_success{cluster="dev/sandbox",operation="backup"} 0`,
		`tisnap_run_failures{cluster="dev/sandbox",kind="interrupted",operation="backup"} 0`,
		`tisnap_run_failures{cluster="dev/sandbox",kind="unready",operation="backup"} 1`,
		`tisnap_runs{cluster="tidb/prod",operation="backup",outcome="done"} 40`,
		`tisnap_runs{cluster="tidb/prod",operation="backup",outcome="running"} 1`,
		`tisnap_runs{cluster="tidb/orders",operation="backup",outcome="died"} 1`,
		`tisnap_run_unfinished_since_timestamp_seconds{cluster="tidb/prod",operation="backup",outcome="running"} `,
		`tisnap_run_unfinished_since_timestamp_seconds{cluster="tidb/orders",operation="backup",outcome="died"} `,
		`tisnap_run_duration_seconds{cluster="dr/copy",operation="restore"}`,
		`tisnap_run_phase_duration_seconds{cluster="dr/copy",operation="restore",phase="resolve data"} 491`,
		`tisnap_run_cut_duration_seconds{cluster="tidb/prod",operation="backup"} 0.8`,
		`tisnap_lock_held{cluster="tidb/prod"} 1`,
		`tisnap_lock_held{cluster="tidb/orders"} 0`,
		`tisnap_lock_info{cluster="tidb/prod",command="backup",host="backup-28a1-xk2p",run="20261122t100000-11fe11fe"} 1`,
		`tisnap_cluster_held{cluster="tidb/prod"} 1`, // its run lives
		`tisnap_cluster_held{cluster="tidb/orders"} 1`,
		`tisnap_cluster_held{cluster="dev/sandbox"} 0`,
		`tisnap_exporter_last_refresh_success 1`,
		`tisnap_build_info{goversion="` + runtime.Version() + `",version="v1.2.3"} 1`,
	} {
		assert.Contains(t, text, line)
	}
	assert.NotContains(t, text, `tisnap_backup_last_sealed_timestamp_seconds{cluster="dev/sandbox"}`)
	assert.NotContains(t, text, `tisnap_run_unfinished_since_timestamp_seconds{cluster="dev/sandbox"`)
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	assert.Empty(t, problems)
}

// Only a drill that passed makes the cluster's last one later.
func TestMetrics_LastDrillThatPassed(t *testing.T) {
	t.Parallel()
	of, at := cluster.Name{Namespace: "tidb", Name: "prod"}, time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	drilled := func(run cluster.RunID, days int, outcome phase.Outcome) *report.Report {
		r := exportertest.Drill("nightly-1", of, run, at)
		r.Outcome, r.Finished = outcome, at.AddDate(0, 0, days)
		return r
	}
	for name, row := range map[string]struct {
		drills []*report.Report
		days   int // after at; 0 if there is no such metric
	}{
		"one passed":       {[]*report.Report{drilled("r1", 1, phase.Done)}, 1},
		"two passed":       {[]*report.Report{drilled("r1", 2, phase.Done), drilled("r2", 1, phase.Done)}, 2},
		"one failed later": {[]*report.Report{drilled("r1", 1, phase.Done), drilled("r2", 2, phase.Failed)}, 1},
		"one failed":       {[]*report.Report{drilled("r1", 1, phase.Failed)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			s := exportertest.New(t.Context(), store)
			for _, r := range row.drills {
				s.Report(r)
			}
			require.NoError(t, s.Err())
			x := exporter.New(store, exporter.Options{})
			require.NoError(t, x.Refresh(t.Context()))
			found := regexp.MustCompile(`(?m)^tisnap_drill_last_passed_timestamp_seconds\{cluster="tidb/prod"\} (\S+)$`).
				FindStringSubmatch(scrape(t, x))
			if row.days == 0 {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 2)
			seconds, err := strconv.ParseFloat(found[1], 64)
			require.NoError(t, err)
			require.Equal(t, at.AddDate(0, 0, row.days).Unix(), int64(seconds))
		})
	}
}

// Every metric that the table names as the exporter's is shown, and none that it does not.
func TestMetrics_AreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	text := scrape(t, example(t, exporter.Options{}))
	want, got := map[string]bool{}, map[string]bool{}
	for _, m := range metrics.Table() {
		for _, from := range m.From {
			if from == metrics.FromExporter {
				want[m.Name] = true
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^(tisnap_[a-z_]+)[ {]`).FindAllStringSubmatch(text, -1) {
		got[m[1]] = true
	}
	assert.Equal(t, want, got)
}

// Names in a storage are anything that someone wrote there; the metrics stay few and can be read.
func TestMetrics_CardinalityIsBounded(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(t.Context(), store)
	now := time.Now()
	for i := range 60 { // more makes the test slow, and shows no more
		of := cluster.Name{Namespace: "<script>alert(1)</script>\n", Name: fmt.Sprintf("%d\x1b[31m%s", i, strings.Repeat("x", 10_000))}
		id := cluster.BackupID(fmt.Sprint("b", i))
		run := cluster.RunID(fmt.Sprint("r", i))
		s.Sealed(id, of, run, now)
		r := exportertest.Backup(id, of, run, now, 900, 4)
		for j := range 40 {
			r.Phases = append(r.Phases, r.Phases[0])
			r.Phases[len(r.Phases)-1].Name = fmt.Sprintf("phase %d of %d\n", j, i)
		}
		r.ErrorKind = fmt.Sprint("kind ", i)
		s.Report(r)
	}
	require.NoError(t, s.Err())
	x := exporter.New(store, exporter.Options{MaxClusters: 10})
	require.NoError(t, x.Refresh(t.Context()))
	text := scrape(t, x)
	series := len(regexp.MustCompile(`(?m)^tisnap_`).FindAllString(text, -1))
	t.Logf("%d time series, %d bytes", series, len(text))
	assert.Less(t, series, 10*180)
	assert.Contains(t, text, "tisnap_exporter_clusters_dropped 50\n")
	assert.NotContains(t, text, "\x1b")
	assert.NotContains(t, text, `kind="kind`)
	_, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
}

// A storage that cannot be read leaves what was read before, and is reported.
func TestMetrics_StorageFails_OldOnesStay(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(t.Context(), store)
	s.Example(time.Now())
	require.NoError(t, s.Err())
	x := exporter.New(store, exporter.Options{})
	require.NoError(t, x.Refresh(t.Context()))
	broken, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, x.Refresh(broken))
	text := scrape(t, x)
	assert.Contains(t, text, "tisnap_exporter_last_refresh_success 0\n")
	assert.Contains(t, text, `tisnap_backups{cluster="tidb/prod",state="sealed"} 40`)
}

// A scrape that comes before the first read waits for it, and not longer than its scraper.
func TestMetrics_BeforeTheFirstRead_Wait(t *testing.T) {
	t.Parallel()
	x := exporter.New(objstoretest.NewMemory(nil), exporter.Options{})
	assert.Equal(t, http.StatusServiceUnavailable, get(t, x, "/-/ready").Code)
	assert.Equal(t, http.StatusOK, get(t, x, "/-/healthy").Code)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ended, http.MethodGet, "/metrics", nil)
	r.Host = "127.0.0.1"
	x.Handler().ServeHTTP(w, r)
	assert.Empty(t, w.Body.String())
	go func() { _ = x.Refresh(context.WithoutCancel(t.Context())) }()
	assert.Contains(t, scrape(t, x), "tisnap_exporter_last_refresh_success 1\n")
	assert.Equal(t, http.StatusOK, get(t, x, "/-/ready").Code)
}

// delayed is a storage whose every answer takes its time, as S3's does.
type delayed struct {
	objstore.Store

	latency  time.Duration
	requests atomic.Int64
}

func (d *delayed) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	d.requests.Add(1)
	if err := wait.For(ctx, d.latency); err != nil {
		return nil, "", err
	}
	return d.Store.Get(ctx, key)
}

// List takes one answer's time for each page of a thousand keys.
func (d *delayed) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	objects, err := d.Store.List(ctx, prefix)
	pages := len(objects)/1000 + 1
	d.requests.Add(int64(pages))
	if waitErr := wait.For(ctx, time.Duration(pages)*d.latency); waitErr != nil {
		return nil, waitErr
	}
	return objects, err
}

// manyRuns is a storage with so many backups and their reports.
func manyRuns(b testing.TB, n int) *delayed {
	b.Helper()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(b.Context(), store)
	start := time.Now().Add(-time.Duration(n) * time.Hour)
	for i := range n {
		of := cluster.Name{Namespace: "tidb", Name: fmt.Sprint("c", i%50)}
		id, run := cluster.BackupID(fmt.Sprintf("b%06d", i)), cluster.RunID(fmt.Sprintf("r%06d", i))
		at := start.Add(time.Duration(i) * time.Hour)
		s.Sealed(id, of, run, at)
		s.Report(exportertest.Backup(id, of, run, at, 900, 4))
	}
	require.NoError(b, s.Err())
	return &delayed{Store: store, latency: 20 * time.Millisecond}
}

// BenchmarkFirstScrape measures the first scrape of a storage with 10,000 runs, and the next one. The floor is what the
// requests alone take at S3's latency, 64 at a time, as pages of a listing follow each other.
func BenchmarkFirstScrape(b *testing.B) {
	runs := 10_000
	if os.Getenv("TISNAP_TEST_BENCH_RUNS") != "" {
		_, err := fmt.Sscan(os.Getenv("TISNAP_TEST_BENCH_RUNS"), &runs)
		require.NoError(b, err)
	}
	store := manyRuns(b, runs)
	for b.Loop() {
		store.requests.Store(0)
		x := exporter.New(store, exporter.Options{})
		start := time.Now()
		require.NoError(b, x.Refresh(b.Context()))
		size := len(scrape(b, x))
		first := time.Since(start)
		requests := store.requests.Load()
		start = time.Now()
		require.NoError(b, x.Refresh(b.Context()))
		again := time.Since(start)
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		floor := float64(requests) * store.latency.Seconds() / 64
		b.ReportMetric(first.Seconds(), "first-s")
		b.ReportMetric(floor, "floor-s")
		b.ReportMetric(again.Seconds(), "next-s")
		b.ReportMetric(float64(requests), "requests")
		b.ReportMetric(float64(store.requests.Load()-requests), "next-requests")
		b.ReportMetric(float64(size), "scrape-bytes")
		b.ReportMetric(float64(mem.HeapInuse)/1e6, "heap-MB")
		runtime.KeepAlive(x)
	}
}

// What is kept of a run is small: memory grows by less than 6.5 kB for each.
func TestMemory_OfManyRuns_IsBounded(t *testing.T) { // it measures the whole process's heap
	store := manyRuns(t, 1000)
	store.latency = time.Microsecond
	heap := func() uint64 {
		runtime.GC()
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		return mem.HeapAlloc
	}
	before := heap()
	x := exporter.New(store, exporter.Options{})
	require.NoError(t, x.Refresh(t.Context()))
	grown := int64(heap()) - int64(before)
	runtime.KeepAlive(x)
	t.Logf("%d bytes a run", grown/1000)
	assert.Less(t, grown/1000, int64(6500))
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(text)
}
