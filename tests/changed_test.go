package tests

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// A backup's report shows how much was written to since the backup before, and the trend shows it.
func TestReport_SecondBackup_ReportsHowMuchChanged(t *testing.T) {
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 6, Scale: 20})
	p.env = []string{"XDG_CACHE_HOME=" + t.TempDir()}
	c, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	require.NoError(t, c.SplitAt(t.Context(), []byte("a"), []byte("b"), []byte("c"), []byte("d"), []byte("e")))
	backup := func(name string) *report.Changed {
		e := p.run(t, "backup", prod.String(), "--name", name, "--storage", whole, "-o", "json")
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		var doc struct{ Report report.Report }
		require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc))
		return doc.Report.Changed
	}
	require.Nil(t, backup("first"), "there is none before")
	require.Eventually(t, func() bool { return c.SplitAt(t.Context(), []byte("c5")) == nil }, time.Minute, 100*time.Millisecond)
	changed := backup("second")
	require.NotNil(t, changed)
	require.EqualValues(t, "first", changed.Since)
	require.Equal(t, 7, changed.Of)
	require.GreaterOrEqual(t, changed.Regions, 2, "the one that was split, and the new one")
	require.Positive(t, changed.DataBytes)

	e := p.run(t, "report", "second", "--storage", whole)
	require.Contains(t, e.stdout, "written to: "+changed.Text(), e.stderr)
	e = p.run(t, "report", "--since", "30d", "--storage", whole)
	require.Regexp(t, `WRITTEN-TO(.|\n)* `+changed.Size()+`\n`, e.stdout, e.stderr)
}
