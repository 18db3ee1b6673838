package tests

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// maxOff is how far each estimate may be from what the run took: make bench SUITE=estimate.
const maxOff = 0.25

// steadyRules are those of an EC2 that takes most of a run's time, as the real one does, and always as long: what varies is
// this machine. With quick rules a run is a few seconds of this machine's own work, which is not estimated.
func steadyRules() *ebstest.Rules {
	r := ebstest.QuickRules()
	r.SnapshotBase, r.Creating = 8*time.Second, ebstest.Span{Least: 5 * time.Second, Most: 5 * time.Second}
	return r
}

// TestEstimate_RoundsOfTheTestbed takes ESTIMATE_ROUNDS backups and restores each of one, and compares what each run's
// report shows as expected, by the model fitted to the runs before it, with what it took. A restored cluster is removed
// before the next round: each that stays makes this machine slower, and the model rightly knows nothing of it.
func TestEstimate_RoundsOfTheTestbed(t *testing.T) {
	rounds, err := strconv.Atoi(os.Getenv("ESTIMATE_ROUNDS"))
	if err != nil || rounds < 7 {
		t.Skip("it takes minutes: make bench SUITE=estimate")
	}
	p := newPlace(t, testbed.Config{Nodes: 3 * (rounds + 1), Rules: steadyRules(), PodStart: 2 * time.Second})
	_, err = p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	off := map[report.Operation][]float64{}
	for i := range rounds {
		id := fmt.Sprint("round-", i)
		p.compare(t, off, "backup", prod.String(), "--name", id, "--storage", whole, "-o", "json")
		p.compare(t, off, "restore", id, "--to", "tidb/"+id, "--storage", whole, "-o", "json")
		require.NoError(t, p.bed.Kube.Remove(p.bed.Kube.Get("tidbclusters", "tidb", id)))
	}
	for op, all := range off {
		slices.Sort(all)
		t.Logf("%s: %d runs with an estimate of their own, off by %.0f%% in the median, %.0f%% at most", op, len(all), 100*all[len(all)/2], 100*all[len(all)-1])
		require.LessOrEqual(t, all[len(all)-1], maxOff, op)
	}
	require.Len(t, off, 2)
}

// compare runs a command and notes how far it was from what was expected, once the model is fitted.
func (p *place) compare(t *testing.T, off map[report.Operation][]float64, args ...string) {
	t.Helper()
	e := p.run(t, args...)
	require.Zero(t, e.code, e.stderr)
	var doc struct{ Report *report.Report }
	require.NoError(t, json.Unmarshal([]byte(e.stdout), &doc))
	r := doc.Report
	if r.Expected == nil { // of the first backup: the amount of data is unknown before
		require.Equal(t, report.Backup, r.Operation)
		return
	}
	t.Logf("%s: expected %.1f s by %s, took %.1f s", r.Operation, r.Expected.Seconds, r.Expected.Model, r.TotalSeconds)
	if r.Expected.Model != "the published tables" {
		off[r.Operation] = append(off[r.Operation], math.Abs(r.Expected.Seconds/r.TotalSeconds-1))
	}
}
