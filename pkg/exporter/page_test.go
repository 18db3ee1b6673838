package exporter_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/exporter"
	"github.com/tisnap/tisnap/pkg/exporter/exportertest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

func TestPage_ListsSearchesAndFollows(t *testing.T) {
	t.Parallel()
	x := example(t, exporter.Options{})
	for path, want := range map[string][]string{
		"/":                              {"41 backups", "tidb/prod", "held, no live run", "Recent failed runs", "backup running", "The target of a restore", "<svg", "Recent restores", "dr/copy"},
		"/?q=ORDERS":                     {"1 backup<", "orders-1"},
		"/?q=nothing-like-this":          {"No backup found", "nothing-like-this", `href="/"`},
		"/?page=99":                      {"41 backups"},
		"/backups/orders-1":              {"backup orders-1 of tidb/orders", "sealed", "Timeline"},
		"/runs/20261122t100000-11fe11fe": {"backup of tidb/prod", "hold-gc", "running", "live.js", `data-from="/live/20261122t100000-11fe11fe"`},
		"/live/20261122t100000-11fe11fe": {"hold-gc", "connect"},
		"/runs/20261121t010000-00000bad": {"the lease of store 4 ended"},
		"/runs/20261122t090000-0dead000": {"no sign of life since", "cut"},
		"/page.css":                      {".clusters"},
		"/live.js":                       {"fetch("},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := get(t, x, path)
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			for _, text := range want {
				assert.Contains(t, w.Body.String(), text)
			}
			assert.NotContains(t, w.Body.String(), "Anyone who can reach this address")
		})
	}
	t.Run("a part is not a document", func(t *testing.T) {
		t.Parallel()
		assert.NotContains(t, get(t, x, "/live/20261122t100000-11fe11fe").Body.String(), "<html")
	})
	t.Run("of a run that ended there is nothing to follow", func(t *testing.T) {
		t.Parallel()
		assert.Equal(t, http.StatusNoContent, get(t, x, "/live/20261121t010000-00000bad").Code)
	})
	for _, path := range []string{"/backups/none", "/runs/none", "/other", "/backups/..%2f..%2fetc"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, http.StatusNotFound, get(t, x, path).Code)
		})
	}
}

// What a run wrote after the storage was read last is seen at once.
func TestPage_Live_ReadsTheJournalEachTime(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(t.Context(), store)
	prod := cluster.Name{Namespace: "tidb", Name: "prod"}
	s.Lock(prod, "r1", time.Now(), false)
	s.Journal(prod, "r1", "b1", time.Now(), "preflight")
	x := exporter.New(store, exporter.Options{})
	require.NoError(t, x.Refresh(t.Context()))
	require.NotContains(t, get(t, x, "/live/r1").Body.String(), "await-snapshots")
	_, err := store.Create(t.Context(), "runs/r1/journal/000003.json", []byte(`{"seq":3,"run":"r1","type":"begin","step":"await-snapshots"}`))
	require.NoError(t, err)
	require.NoError(t, s.Err())
	require.Contains(t, get(t, x, "/live/r1").Body.String(), "await-snapshots")
}

// A run that has ended since the storage was read is not shown as running, and one that announced its time shows how far
// it is.
func TestPage_Live_EndAndExpectation(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		record string
		want   []string
		not    string
	}{
		"running": {`{"seq":4,"type":"begin","step":"backup-ts"}`, []string{">running<", "<dt>phase</dt><dd>get backup ts</dd>", "<dt>step</dt><dd>backup-ts</dd>"}, "expected"},
		"announced": {`{"seq":4,"type":"result","name":"expected","data":{"model":"published tables","seconds":600,"lowSeconds":500,"highSeconds":700}}`,
			[]string{">running<", "10m00s", "published tables", "50% of the expected time"}, "longer than expected"},
		"not AWS": {`{"seq":4,"type":"result","name":"expected","data":{"model":"the published tables","seconds":1468,"lowSeconds":1027,"highSeconds":2055,"notAWS":true}}`,
			[]string{">running<", "<dt>expected</dt><dd>24m28s (17m07s to 34m15s), by the published tables, a model of AWS: not comparable here</dd>"}, "<dt>ends"},
		"late": {`{"seq":4,"type":"result","name":"expected","data":{"model":"published tables","seconds":60,"lowSeconds":50,"highSeconds":70}}`,
			[]string{">running<", "it takes longer than expected"}, "of the expected time"},
		"done":   {`{"seq":4,"type":"end"}`, []string{">done<"}, "running for"},
		"failed": {`{"seq":4,"type":"end","error":"no"}`, []string{">failed<"}, "running for"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			s := exportertest.New(t.Context(), store)
			prod, began := cluster.Name{Namespace: "tidb", Name: "prod"}, time.Now().Add(-5*time.Minute)
			s.Lock(prod, "r1", began, false)
			s.Journal(prod, "r1", "b1", began, "preflight", "lock")
			require.NoError(t, s.Err())
			x := exporter.New(store, exporter.Options{})
			require.NoError(t, x.Refresh(t.Context()))
			for seq := 4; ; seq++ { // behind what the journal has
				if _, err := store.Create(t.Context(), manifest.JournalKey("r1", seq), []byte(strings.Replace(row.record, `"seq":4`, fmt.Sprintf(`"seq":%d`, seq), 1))); err == nil {
					break
				}
			}
			body := get(t, x, "/live/r1").Body.String()
			for _, text := range row.want {
				require.Contains(t, body, text)
			}
			require.NotContains(t, body, row.not)
		})
	}
}

// A cluster into which the last restore failed is not green, and one that had nothing but failures long ago is forgotten.
func TestPage_ClustersThatOnlyFailed(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(t.Context(), store)
	now, copied, typo := time.Now(), cluster.Name{Namespace: "dr", Name: "copy"}, cluster.Name{Namespace: "tidb", Name: "nosuch"}
	failed := exportertest.Failed(copied, "r2", now.Add(-time.Hour))
	failed.Operation = report.Restore
	s.Report(exportertest.Restore("b", copied, "r1", now.Add(-3*time.Hour)))
	s.Report(failed)
	s.Report(exportertest.Failed(typo, "r3", now.Add(-40*24*time.Hour)))
	s.Sealed("kept", cluster.Name{Namespace: "tidb", Name: "retired"}, "r4", now.Add(-40*24*time.Hour))
	require.NoError(t, s.Err())
	x := exporter.New(store, exporter.Options{})
	require.NoError(t, x.Refresh(t.Context()))
	body := get(t, x, "/").Body.String()
	require.Contains(t, body, "restore failed")
	require.NotContains(t, body, `>restored<`)
	metrics := get(t, x, "/metrics").Body.String()
	require.Contains(t, metrics, `cluster="dr/copy"`)
	require.NotContains(t, metrics, `cluster="tidb/nosuch"`)
	require.Contains(t, metrics, `cluster="tidb/retired"`, "it has a backup")
}

// A run whose process died is neither green nor left out: the cluster's card leads to it, and its page shows where it ended.
func TestPage_RunThatDied(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(t.Context(), store)
	now, copied := time.Now(), cluster.Name{Namespace: "dr", Name: "copy"}
	s.Lock(copied, "r2", now.Add(-time.Hour), true)
	s.Journal(copied, "r2", "b", now.Add(-time.Hour), "preflight", "lock", "connect")
	s.Journal(copied, "r1", "b", now.Add(-3*time.Hour), "preflight", "lock", "connect") // another run has had the lock since
	require.NoError(t, s.Err())
	x := exporter.New(store, exporter.Options{})
	require.NoError(t, x.Refresh(t.Context()))
	home := get(t, x, "/").Body.String()
	require.Contains(t, home, "last run died")
	require.Contains(t, home, `backup died: <a href="/runs/r2"`)
	require.Contains(t, home, `<th scope="row"><a href="/runs/r2">r2</a></th><td><span class="badge bad">died</span></td>`)
	require.NotContains(t, get(t, x, "/?q=other").Body.String(), "r2")
	for path, want := range map[string][]string{
		"/runs/r2": {"no sign of life since", ">interrupted<"},
		"/runs/r1": {"backup of dr/copy", ">died<", "tisnap runs abort r1", ">interrupted<", `href="/backups/b"`},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := get(t, x, path)
			require.Equal(t, http.StatusOK, w.Code)
			for _, text := range want {
				require.Contains(t, w.Body.String(), text)
			}
		})
	}
}

// What was done with a cluster's backups beside it is on its card and in a list, and what died among the failed runs.
func TestPage_DrillsArchivesAndCopies(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(t.Context(), store)
	now, prod := time.Now().Add(-30*time.Second), cluster.Name{Namespace: "tidb", Name: "prod"}
	s.Sealed("b", prod, "r0", now.Add(-9*time.Hour))
	drilled := exportertest.Drill("b", prod, "r1", now.Add(-8*time.Hour))
	drilled.Outcome, drilled.ErrorKind = phase.Failed, failure.Unproven.String()
	s.Report(drilled)
	s.Report(exportertest.Archive("b", prod, "r2", now.Add(-5*time.Hour)))
	copied := exportertest.Archive("b", prod, "r3", now.Add(-4*time.Hour))
	copied.Operation = report.Copy
	s.Report(copied)
	archive, drill := journal.About{Operation: journal.Archive, Cluster: prod}, journal.About{Operation: journal.Drill, Cluster: prod}
	s.Lock(archive.Lock(), "r4", now.Add(-time.Minute), false)
	s.Began(archive, "r4", now.Add(-time.Minute))
	s.Lock(drill.Lock(), "r5", now.Add(-time.Hour), true)
	s.Began(drill, "r5", now.Add(-time.Hour))
	require.NoError(t, s.Err())
	x := exporter.New(store, exporter.Options{})
	require.NoError(t, x.Refresh(t.Context()))
	home := get(t, x, "/").Body.String()
	for _, text := range []string{
		"<p>Last drilled 7 h 48 min ago (unproven), archived 4 h 55 min ago, copied 3 h 55 min ago</p>",
		`<p>archive running: <a href="/runs/r4">r4</a></p>`, `<p>drill died: <a href="/runs/r5">r5</a></p>`,
		"Recent drills, archives and copies", `<th scope="row"><a href="/runs/r2">r2</a></th><td><span class="badge good">done</span></td>`,
		`<th scope="row"><a href="/runs/r5">r5</a></th><td><span class="badge bad">died</span></td>`,
	} {
		require.Contains(t, home, text)
	}
	require.NotContains(t, home, "Recent restores")
	metrics := scrape(t, x)
	for _, metric := range []string{"timestamp_seconds", "stored_bytes", "cost_usd"} {
		require.Contains(t, metrics, `tisnap_archive_last_`+metric+`{cluster="tidb/prod"} `)
	}
	require.Contains(t, metrics, `tisnap_archive_last_cost_usd{cluster="tidb/prod"} 1.5`)
	found := get(t, x, "/?q=archive").Body.String()
	require.Contains(t, found, "/runs/r2")
	require.NotContains(t, found, "/runs/r3")
}

// Nor is one that may have died shown as running.
func TestPage_LockIsNotRenewed(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(t.Context(), store)
	prod, began := cluster.Name{Namespace: "tidb", Name: "prod"}, time.Now().Add(-80*time.Second)
	s.SilentLock(prod, "r1", began)
	s.Journal(prod, "r1", "b1", began, "preflight", "lock")
	require.NoError(t, s.Err())
	x := exporter.New(store, exporter.Options{})
	require.NoError(t, x.Refresh(t.Context()))
	for path, want := range map[string]string{"/": ">lock not renewed<", "/live/r1": ">lock not renewed since "} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			body := get(t, x, path).Body.String()
			require.Contains(t, body, want)
			require.NotContains(t, body, `<span class="badge warn">running<`)
		})
	}
}

// No request changes anything, and no other web site can make a browser show or read the page.
func TestPage_IsReadOnlyAndGuarded(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	x := exporter.New(store, exporter.Options{})
	require.NoError(t, x.Refresh(t.Context()))
	before := len(store.MutatingCalls())
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, http.MethodTrace} {
		t.Run(method, func(t *testing.T) {
			for _, path := range []string{"/", "/metrics", "/backups/x", "/runs/x", "/live.js", "/no/such/path"} {
				w := httptest.NewRecorder()
				r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
				r.Host = "localhost"
				x.Handler().ServeHTTP(w, r)
				assert.Equal(t, http.StatusMethodNotAllowed, w.Code, path)
				assert.Contains(t, w.Body.String(), "nothing can be changed here", path)
			}
		})
	}
	header := get(t, x, "/").Header()
	policy := header.Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	assert.NotContains(t, policy, "unsafe")
	assert.Contains(t, policy, "frame-ancestors 'none'")
	assert.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
	assert.Equal(t, "no-referrer", header.Get("Referrer-Policy"))
	assert.Equal(t, "no-store", header.Get("Cache-Control"))
	for host, code := range map[string]int{
		"localhost:9090": 200, "127.0.0.1:9090": 200, "[::1]:9090": 200, "127.0.0.1": 200,
		"evil.example:9090": http.StatusMisdirectedRequest, "10.0.0.7:9090": http.StatusMisdirectedRequest, "localhost.evil.example": http.StatusMisdirectedRequest,
	} {
		t.Run(host, func(t *testing.T) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
			r.Host = host
			w := httptest.NewRecorder()
			x.Handler().ServeHTTP(w, r)
			assert.Equal(t, code, w.Code)
		})
	}
	assert.Len(t, store.MutatingCalls(), before)
}

func TestPage_Public_Warns(t *testing.T) {
	t.Parallel()
	x := example(t, exporter.Options{Public: true})
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Host = "tisnap-exporter.backup.svc:9090"
	x.Handler().ServeHTTP(w, r)
	assert.Equal(t, http.StatusOK, w.Code)
	assert.Contains(t, w.Body.String(), "Anyone who can reach this address")
}

func TestPage_Off_MetricsAlone(t *testing.T) {
	t.Parallel()
	x := example(t, exporter.Options{NoPage: true})
	assert.Equal(t, http.StatusNotFound, get(t, x, "/").Code)
	assert.Contains(t, scrape(t, x), "tisnap_backups")
}

// Everything that comes from a storage is text: it becomes no element, no attribute and no script.
func TestPage_HostileNames_DoNothing(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(t.Context(), store)
	now := time.Now()
	evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>` + "\x1b[31m\n" + strings.Repeat("A", 10_000)
	of := cluster.Name{Namespace: evil, Name: evil}
	s.Sealed("b1", of, cluster.RunID(evil), now)
	r := exportertest.Backup("b1", of, cluster.RunID(evil), now, 900, 4)
	r.Warnings, r.Phases[0].Name = []string{evil}, evil
	s.Report(r)
	failed := exportertest.Failed(of, "r2", now)
	failed.Error, failed.ErrorKind, failed.Backup = evil, evil, cluster.BackupID(evil)
	s.Report(failed)
	prod := cluster.Name{Namespace: "tidb", Name: "prod"}
	s.Lock(prod, "r3", now, false)
	s.Journal(prod, "r3", cluster.BackupID(evil), now, evil, "hold")
	require.NoError(t, s.Err())
	x := exporter.New(store, exporter.Options{})
	require.NoError(t, x.Refresh(t.Context()))
	for _, path := range []string{"/", "/backups/b1", "/runs/r2", "/runs/r3", "/?q=" + "%22%3E%3Cscript%3Ealert(1)%3C/script%3E"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			text := get(t, x, path).Body.String()
			assert.NotContains(t, strings.ReplaceAll(text, `<script src="/live.js" defer></script>`, ""), "<script")
			assert.NotContains(t, text, "<img")
			assert.NotContains(t, text, "\x1b")
			assert.Less(t, len(text), 100_000)
		})
	}
}

// The address and the end of a server are the listener's and the context's.
func TestServe_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	x := example(t, exporter.Options{Interval: time.Hour})
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- x.Serve(ctx, listener) }()
	go func() { ended <- x.Run(ctx) }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req) //nolint:bodyclose // body closes it
	require.NoError(t, err)
	assert.Contains(t, body(t, resp), "41 backups")
	http.DefaultClient.CloseIdleConnections()
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
}

// The share that no verification has read is over all repositories, and of the storage's clusters alone.
func TestPage_UnverifiedArchives(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	s, x := exportertest.New(t.Context(), store), exporter.New(store, exporter.Options{})
	now, prod := time.Now(), cluster.Name{Namespace: "tidb", Name: "prod"}
	s.Sealed("b", prod, "r1", now)
	other := cluster.Name{Namespace: "else", Name: "where"}
	s.Archives("aa", manifest.ClustersArchives{Cluster: prod, Archives: 2, Blocks: 300, UnreadBlocks: 60, Verified: now.Add(-5 * time.Hour)},
		manifest.ClustersArchives{Cluster: other, Archives: 1, Blocks: 10, UnreadBlocks: 10})
	s.Archives("bb", manifest.ClustersArchives{Cluster: prod, Archives: 1, Blocks: 100, UnreadBlocks: 100})
	require.NoError(t, s.Err())
	require.NoError(t, x.Refresh(t.Context()))
	require.Contains(t, get(t, x, "/").Body.String(), "<p>3 archives, 40% of them unverified, last verified 5 h 0 min ago</p>")
	metrics := get(t, x, "/metrics").Body.String()
	require.Contains(t, metrics, `tisnap_archive_unverified_ratio{cluster="tidb/prod"} 0.4`)
	require.Contains(t, metrics, `tisnap_archive_last_verified_timestamp_seconds{cluster="tidb/prod"} `)
	require.NotContains(t, metrics, "else/where")
}

// While an archive cannot be read, whose it is is unknown: nothing is taken for verified.
func TestPage_ArchiveCannotBeRead_IsUnverified(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	s, x := exportertest.New(t.Context(), store), exporter.New(store, exporter.Options{})
	now, prod := time.Now(), cluster.Name{Namespace: "tidb", Name: "prod"}
	s.Sealed("b", prod, "r1", now)
	s.Archives("aa", manifest.ClustersArchives{Cluster: prod, Archives: 2, Blocks: 300, Verified: now})
	s.UnreadableArchives("bb", 1, manifest.ClustersArchives{Cluster: prod, Archives: 1, Blocks: 100, Verified: now})
	require.NoError(t, s.Err())
	require.NoError(t, x.Refresh(t.Context()))
	require.Contains(t, get(t, x, "/").Body.String(), "<p>3 archives, and 1 archive that cannot be read</p>")
	require.Contains(t, get(t, x, "/metrics").Body.String(), "tisnap_archive_unverified_ratio{cluster=\"tidb/prod\"} 1\n")
}
