// Package page_test opens the exporter's page and the reports in a real browser: make test-page.
package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// deadline bounds all that one test does in the browser.
const deadline = 5 * time.Minute

// Widths of what is seen of a page.
const (
	desk  = 1280
	phone = 390
)

// browser is the one that all tests open their tabs in. Names of other machines have no address in it.
var browser context.Context

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run starts the browser, and ends it after the tests.
func run(m *testing.M) int {
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	ctx, closeAll := chromedp.NewContext(ctx)
	defer closeAll()
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		fmt.Fprintln(os.Stderr, "the browser does not start: make test-page installs it:", err)
		return 1
	}
	browser = ctx
	return m.Run()
}

// tab is one tab of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // it is the tab: chromedp keeps it there

	mu       sync.Mutex
	requests []string // addresses of all requests, also of those that were refused
	problems []string // the browser's complaints: exceptions, what its policy refused, errors
}

// newTab opens a tab, which the test's end closes.
func newTab(t *testing.T) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(browser)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	require.NoError(t, chromedp.Listen(ctx, b.note))
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	require.NoError(t, err)
	b.size(desk, 900)
	return b
}

// note keeps requests and problems. It is called in the order of events.
func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, e.ExceptionDetails.Text)
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			b.problems = append(b.problems, e.Entry.Text)
		}
	}
}

// do runs steps and ends the test if one fails.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, steps...))
}

// open loads a page whole.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url), chromedp.WaitReady(chromedp.CSS("main")))
}

// size sets the size of what is seen of a page.
func (b *tab) size(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// theme is "light" or "dark"; media is "screen" or "print".
func (b *tab) theme(theme, media string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Media: media, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}},
	})
	require.NoError(b.t, err)
}

// eval runs an expression in the page and decodes its value.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	return value
}

// picture saves what the page looks like in $TISNAP_TEST_PICTURES, for a person to look at; without it nothing is saved.
func (b *tab) picture(name string) {
	b.t.Helper()
	folder := os.Getenv("TISNAP_TEST_PICTURES")
	if folder == "" {
		return
	}
	image, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	require.NoError(b.t, os.MkdirAll(folder, 0o750))
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), image, 0o600))
}

// pictures saves what the page looks like on a desk and on a phone, in both themes.
func (b *tab) pictures(name string) {
	b.t.Helper()
	for device, width := range map[string]int64{"": desk, "-phone": phone} {
		b.size(width, 900)
		for _, theme := range []string{"light", "dark"} {
			b.theme(theme, "screen")
			b.picture(name + device + "-" + theme)
		}
	}
}

// level checks that the text of a badge in a table stands on the line of its row.
func level(b *tab) {
	b.t.Helper()
	off := eval[[]float64](b, `[...document.querySelectorAll("td .badge")].map(badge => {
		const baseline = e => {
			const probe = document.createElement("span");
			probe.style.cssText = "display:inline-block;width:0;height:0";
			e.prepend(probe);
			const y = probe.getBoundingClientRect().bottom;
			probe.remove();
			return y;
		};
		return Math.abs(baseline(badge) - baseline(badge.closest("tr").querySelector("th")));
	})`)
	for i, pixels := range off {
		require.LessOrEqual(b.t, pixels, 1.0, "badge %d of the tables", i+1)
	}
}

// stayed checks that the page asked only these origins for anything, and that the browser reported no problem.
func (b *tab) stayed(origins ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(b.t, b.requests)
	for _, url := range b.requests {
		allowed := strings.HasPrefix(url, "data:")
		for _, o := range origins {
			allowed = allowed || strings.HasPrefix(url, o)
		}
		require.True(b.t, allowed, "the page asked for %s", url)
	}
	require.Empty(b.t, b.problems)
}

// violation is what axe-core finds.
type violation struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// accessible checks the page by axe-core in both themes: nothing serious or critical.
func (b *tab) accessible() {
	b.t.Helper()
	source, err := os.ReadFile(os.Getenv("TISNAP_TEST_AXE"))
	require.NoError(b.t, err, "make test-page installs axe-core and names it in TISNAP_TEST_AXE")
	for _, theme := range []string{"light", "dark"} {
		b.theme(theme, "screen")
		eval[bool](b, string(source)+"\n;true")
		text := eval[string](b, `axe.run().then(r => JSON.stringify({violations: r.violations, passes: r.passes.length}))`)
		var result struct {
			Violations []violation
			Passes     int
		}
		require.NoError(b.t, json.Unmarshal([]byte(text), &result))
		require.Greater(b.t, result.Passes, 10, "axe-core looked at the page")
		for _, v := range result.Violations {
			if v.Impact == "serious" || v.Impact == "critical" {
				require.Failf(b.t, "not accessible", "%s theme: %s (%s): %+v", theme, v.Help, v.ID, v.Nodes)
			}
		}
	}
	b.theme("light", "screen")
}
