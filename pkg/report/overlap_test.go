package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
)

// Phases that overlap show their wall time, and their own, which add up to the total with the shares.
func TestTable_PhasesOverlap_ShowsWallTimeAndOwnTime(t *testing.T) {
	t.Parallel()
	volumes := timing(report.RestoreVolumes, 6)
	volumes.OverlapSeconds = 6
	tikv := timing(report.StartTiKV, 100)
	tikv.OverlapSeconds = 20
	timings := phase.Timings{timing(report.CreateCluster, 60), volumes, tikv, timing(report.ResolveData, 50), timing(report.StartTiDB, 10)}
	require.InDelta(t, 200, timings.Total(), 1e-9)
	r := report.New(report.Header{Operation: report.Restore, Outcome: phase.Done}, timings)
	require.Zero(t, r.Between())
	sum := 0.0
	for _, p := range r.Phases {
		sum += p.Share
	}
	require.InDelta(t, 1, sum, 1e-9)
	var out bytes.Buffer
	require.NoError(t, r.Table(&out, report.TableOptions{Details: true}))
	row := func(label string) []string {
		for line := range strings.Lines(out.String()) {
			if rest, ok := strings.CutPrefix(line, label); ok {
				return strings.Fields(rest)
			}
		}
		return nil
	}
	assert.Equal(t, []string{"-", "-", "0", "1m00s", "6s", "1m40s", "50s", "10s", "3m20s"}, row("this run"), out.String())
	assert.Equal(t, []string{"1m00s", "0s", "1m20s", "50s", "10s", "3m20s"}, row("of its own"), out.String())
	assert.Equal(t, []string{"30%", "0%", "40%", "25%", "5%", "100%"}, row("share"), out.String())
	assert.Contains(t, out.String(), "its own 1m20s")
	published := r.Published(false)
	require.Len(t, published.Rows, 3)
}
