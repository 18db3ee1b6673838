package page_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/exporter"
	"github.com/tisnap/tisnap/pkg/exporter/exportertest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

const (
	liveRun = "20261122t100000-11fe11fe" // of the example, under way
	badRun  = "20261121t010000-00000bad" // of the example, failed
	slowRun = "20261122t080000-510e510e" // under way for hours
)

// served is the exporter of the example storage, at an address of this machine.
func served(t *testing.T) (string, objstore.Store) {
	t.Helper()
	store := objstoretest.NewMemory(nil)
	s := exportertest.New(t.Context(), store)
	now := time.Now()
	s.Example(now)
	slow := cluster.Name{Namespace: "tidb", Name: "slow"}
	s.Lock(slow, slowRun, now.Add(-11*time.Hour), false)
	s.Journal(slow, slowRun, "slow-1", now.Add(-11*time.Hour), "preflight", "lock", "connect", "hold", "backup-ts", "cut", "await-snapshots")
	require.NoError(t, s.Err())
	x := exporter.New(store, exporter.Options{Version: "v1"})
	require.NoError(t, x.Refresh(t.Context()))
	server := httptest.NewUnstartedServer(x.Handler())
	server.Config.BaseContext = func(net.Listener) context.Context { return context.WithoutCancel(t.Context()) }
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, store
}

func TestPage_InABrowser(t *testing.T) {
	t.Parallel()
	const list, live, long = "list", "live", "live-for-hours"
	url, _ := served(t)
	for name, path := range map[string]string{
		list: "/", "nothing-found": "/?q=nothing-like-this", "backup": "/backups/orders-1", "failed-run": "/runs/" + badRun, live: "/runs/" + liveRun, long: "/runs/" + slowRun,
		"not-found": "/backups/none",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTab(t)
			b.open(url + path)
			legible(b)
			switch name {
			case list:
				seen(b, `[aria-label="Backups"]`, "th", ".badge", "td:nth-child(3)") // its name, state and age
			case live, long:
				seen(b, ".steps", "th", ".badge", ".num:last-child") // the step, its state, and how long it took
			}
			level(b)
			b.accessible()
			b.pictures("page-" + name)
			if name == "not-found" {
				b.forget(fmt.Sprintf("Failed to load resource: the server responded with a status of %d (%s)", http.StatusNotFound, http.StatusText(http.StatusNotFound)))
			}
			b.stayed(url)
		})
	}
}

// forget drops a problem that a test brought about itself.
func (b *tab) forget(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, p := range b.problems {
		if p == text {
			b.problems = append(b.problems[:i], b.problems[i+1:]...)
			return
		}
	}
}

// A search is typed and sent, and its result followed, without a mouse.
func TestPage_ByKeyboard(t *testing.T) {
	t.Parallel()
	url, _ := served(t)
	b := newTab(t)
	b.open(url)
	for range 20 {
		b.do(chromedp.KeyEvent(kb.Tab))
		if eval[string](b, `document.activeElement.id`) == "q" {
			break
		}
	}
	b.do(chromedp.KeyEvent("orders"))
	b.do(chromedp.KeyEvent(kb.Enter))
	// Only the page of the result has the words in its markup; the link is on the page that is left, too.
	b.do(chromedp.WaitVisible(chromedp.CSS(`#q[value="orders"]`)), chromedp.WaitVisible(chromedp.CSS(`a[href="/backups/orders-1"]`)))
	require.Contains(t, eval[string](b, `location.search`), "q=orders")
	require.Equal(t, "orders", eval[string](b, `document.getElementById("q").value`))
	for _, s := range focused(b) {
		require.True(t, s.Seen, "%s has the focus, and nothing shows it", s.Name)
	}
	b.do(chromedp.Focus(chromedp.CSS(`a[href="/backups/orders-1"]`)), chromedp.KeyEvent(kb.Enter))
	b.do(chromedp.WaitVisible(chromedp.CSS(".gantt")))
	b.stayed(url)
}

// The page of a run under way follows its journal without being loaded again.
func TestPage_Live_FollowsTheRun(t *testing.T) {
	t.Parallel()
	url, store := served(t)
	b := newTab(t)
	b.open(url + "/runs/" + liveRun)
	eval[int](b, `window.kept = 1`)
	require.NotContains(t, eval[string](b, `document.getElementById("live").textContent`), "await-snapshots")
	next := len(records(t, store)) + 1
	body := fmt.Sprintf(`{"seq":%d,"time":%q,"run":%q,"type":"begin","step":"await-snapshots"}`, next, time.Now().Format(time.RFC3339), liveRun)
	_, err := store.Create(t.Context(), fmt.Sprintf("runs/%s/journal/%06d.json", liveRun, next), []byte(body))
	require.NoError(t, err)
	b.do(chromedp.Poll[chromedp.Void](`document.getElementById("live").textContent.includes("await-snapshots")`, chromedp.WithPollingTimeout(time.Minute)))
	require.Equal(t, 1, eval[int](b, `window.kept`), "it is the page that was loaded first")
	b.stayed(url)
}

func records(t *testing.T, store objstore.Store) []objstore.Object {
	t.Helper()
	objects, err := store.List(t.Context(), "runs/"+liveRun+"/journal/")
	require.NoError(t, err)
	return objects
}
