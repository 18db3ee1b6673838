package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/metrics"
	"github.com/tisnap/tisnap/tests/docs"
)

var update = flag.Bool("update", false, "write the table in docs/metrics.md again")

// The documented table of metrics is the code's; make docs writes it.
func TestDocs_Metrics(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../docs/metrics.md", "<!-- metrics: begin -->\n", "<!-- metrics: end -->"
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found, begin)
	got, after, found := strings.Cut(rest, end)
	require.True(t, found, end)
	want := markdown()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+want+end+after), 0o600))
		return
	}
	assert.Equal(t, want, got, "the table of metrics in %s is stale: make docs writes it", file)
}

// Every metric that a page names is one that tisnap has.
func TestDocs_MetricsExist(t *testing.T) {
	t.Parallel()
	pages, err := docs.Pages("../..")
	require.NoError(t, err)
	known := map[string]bool{}
	for _, m := range metrics.Table() {
		known[m.Name] = true
	}
	for name, text := range pages {
		for _, metric := range regexp.MustCompile(`\btisnap_[a-z_]+`).FindAllString(text, -1) {
			assert.True(t, known[metric], "%s names the metric %s", name, metric)
		}
	}
}

func markdown() string {
	var b strings.Builder
	b.WriteString("| metric | labels | what it is | by |\n|---|---|---|---|\n")
	for _, m := range metrics.Table() {
		var labels, from []string
		for _, l := range m.Labels {
			labels = append(labels, "`"+l+"`")
		}
		for _, f := range m.From {
			from = append(from, string(f))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, strings.Join(labels, ", "), m.Help, strings.Join(from, ", "))
	}
	return b.String()
}
