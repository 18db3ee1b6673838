package page_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// What the other tests rely on: a page that asks others, or that cannot be read, is seen to do so.
func TestChecks_SeeABadPage(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bad.html")
	require.NoError(t, os.WriteFile(file, []byte(`<!doctype html><html><body><main><img src="http://elsewhere.example/x.png"><p style="color:#eee;background:#fff">pale</p></main></body></html>`), 0o600))
	b := newTab(t)
	b.open("file://" + file)
	b.do(chromedp.Poll[chromedp.Void](`document.images[0].complete`))
	b.mu.Lock()
	asked := slices.ContainsFunc(b.requests, func(url string) bool { return strings.HasPrefix(url, "http://elsewhere.example/") })
	b.mu.Unlock()
	require.True(t, asked, "a request to another machine is seen")
	source, err := os.ReadFile(os.Getenv("TISNAP_TEST_AXE"))
	require.NoError(t, err)
	eval[bool](b, string(source)+"\n;true")
	found := eval[[]string](b, `axe.run().then(r => r.violations.filter(v => v.impact === "serious" || v.impact === "critical").map(v => v.id))`)
	require.Subset(t, found, []string{"color-contrast", "image-alt", "document-title", "html-has-lang"})
}
