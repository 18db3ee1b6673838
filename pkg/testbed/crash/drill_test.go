package crash

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/testbed/leak"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
)

// killPoint is the call at which a drill is killed.
type killPoint struct {
	call   string
	nth    int64
	probes int // outside of the cage by then
}

// outside is the namespace from which a drill's probes must not reach its cage.
const outside = "default"

// killPoints are where a drill is killed, of a cluster of a generation of TiDB Operator: every second one, or all with
// TISNAP_TEST_EVERY_KILL.
func killPoints(operator int) []killPoint {
	all := []killPoint{
		{"kube.create.networkpolicies", 1, 0}, {"kube.create.namespaces", 1, 0}, {"ec2.CreateVolume", 1, 0},
		{"kube.create.pods", 1, 0}, {"kube.create.persistentvolumes", 1, 0}, {"kube.create.tidbclusters", 1, 0},
		{"kube.delete.tidbclusters", 1, 0}, {"tidb.Tables", 1, 0}, {"kube.delete.namespaces", 1, 0},
		{"ec2.DeleteVolume", 1, 0}, {"kube.create.pods", 3, 1},
	}
	if operator == 2 {
		all = []killPoint{
			{"kube.create.clusters", 1, 0}, {"kube.create.pods", 3, 1}, {"kube.create.tikvs", 2, 0}, {"ec2.CreateVolume", 1, 0},
			{"kube.update.clusters", 1, 0}, {"kube.create.persistentvolumes", 1, 0}, {"kube.create.tidbgroups", 1, 0},
			{"tidb.Tables", 1, 0}, {"kube.delete.clusters", 1, 0}, {"kube.delete.persistentvolumes", 1, 0},
			{"ec2.DeleteVolume", 1, 0}, {"kube.delete.namespaces", 1, 0},
		}
	}
	if everyKill() {
		return all
	}
	var some []killPoint
	for i := 0; i < len(all); i += 2 {
		some = append(some, all[i])
	}
	return some
}

// everyKill reports whether all kill points are tried, and each with everything that removes what a drill left.
func everyKill() bool { return os.Getenv("TISNAP_TEST_EVERY_KILL") != "" }

// A drill that is killed at any of its steps leaves what `drill clean` and `gc --cluster` remove: all of it.
func TestDrill_Killed_CleanLeavesNothing(t *testing.T) {
	t.Parallel()
	drillsKilled(t, 1)
}

func TestDrill_OfOperator2Killed_CleanLeavesNothing(t *testing.T) {
	t.Parallel()
	drillsKilled(t, 2)
}

func drillsKilled(t *testing.T, operator int) {
	t.Helper()
	removers := [][]string{{"drill", "clean", "--yes"}, {"gc", "--cluster", "--older-than", "0s", "--yes"}}
	for i, at := range killPoints(operator) {
		for j, by := range removers {
			if !everyKill() && j != i%2 {
				continue
			}
			t.Run(fmt.Sprint(at.call, " ", at.nth, " ", by[0]), func(t *testing.T) {
				t.Parallel()
				killedThenRemoved(t, operator, at, by)
			})
		}
	}
}

func killedThenRemoved(t *testing.T, operator int, at killPoint, by []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	path, err := shipped.Program()
	require.NoError(t, err)
	w, err := newWorld(ctx, t.TempDir(), &Program{Path: path}, operator)
	require.NoError(t, err)
	defer w.bed.Close()
	args, err := ofDrill(ctx, w)
	require.NoError(t, err, "%s", &w.out)
	before := leak.Everything(w.bed)
	require.NoError(t, w.killDrill(ctx, args, at.call, at.nth), "%s", &w.out)
	require.Len(t, w.bed.Objects.List("pods", outside), at.probes)
	require.NoError(t, w.succeeds(ctx, by...), "%s", &w.out)
	require.NoError(t, leak.AwaitNoMore(ctx, w.bed, before, 10*time.Second), "%s", &w.out)
}
