package crash

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/testbed/leak"
	"github.com/tisnap/tisnap/pkg/testbed/shipped"
	"github.com/tisnap/tisnap/pkg/wait"
)

// killPoint is the call before which a drill is killed.
type killPoint struct {
	call   string
	locks  int64 // that were to be taken by then: before the second one, its restore's, calls are only tried
	nth    int64 // 0 is the first
	probes int   // outside of the cage by then
}

// outside is the namespace from which a drill's probes must not reach its cage.
const outside = "default"

// killPoints are where a drill is killed, of a cluster of a generation of TiDB Operator: every third one, or all with
// TISNAP_TEST_EVERY_KILL.
func killPoints(operator int) []killPoint {
	all := []killPoint{
		{call: "kube.create.namespaces"}, {call: "kube.create.networkpolicies"}, {call: "kube.create.resourcequotas"},
		{call: "kube.create.pods"}, {call: "kube.create.pods", nth: 3, probes: 1},
	}
	ofRestore := []string{"kube.create.tidbclusters", "kube.update.tidbclusters", "kube.delete.tidbclusters"}
	if operator == 2 {
		ofRestore = []string{
			"kube.create.clusters", "kube.create.tikvs", "kube.update.clusters", "kube.create.tidbgroups", "kube.delete.clusters",
			"kube.delete.persistentvolumes",
		}
		all = append(all, killPoint{call: "kube.create.tikvs", locks: 2, nth: 2})
	}
	for _, call := range append(ofRestore, "journal.begin.collect", "journal.begin.await-tidb", "ec2.CreateVolume", "kube.create.persistentvolumes", "kube.create.persistentvolumeclaims",
		"tidb.Tables", "ec2.DeleteVolume", "kube.delete.namespaces") {
		all = append(all, killPoint{call: call, locks: 2})
	}
	if everyKill() {
		return all
	}
	var some []killPoint
	for i := operator; i < len(all); i += 3 {
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

// removers remove what a dead drill left: two commands for that, the same drill again, and any other one.
func removers() [][]string {
	return [][]string{
		{"drill", "clean", "--yes"}, {"drill", baseline, "--tables", "all", "--timeout", "1m"},
		{"gc", "--cluster", "--older-than", "0s", "--yes"}, {"drill", baseline, "--tables", "1", "--timeout", "1m"},
	}
}

func drillsKilled(t *testing.T, operator int) {
	t.Helper()
	for i, at := range killPoints(operator) {
		for j, by := range removers() {
			if j != i%4 && (!everyKill() || by[1] == baseline && j%4 != (i+2)%4) {
				continue
			}
			t.Run(fmt.Sprint(at.call, " ", max(at.nth, 1), " ", j, " ", by[0]), func(t *testing.T) {
				t.Parallel()
				killedThenRemoved(t, operator, at, by)
			})
		}
	}
}

// A drill that is suspended at any of its steps, and removed by another process meanwhile, ends as one that has lost its
// lock when it is continued, and changes nothing any more.
func TestDrill_Suspended_ChangesNothingOnceItIsRemoved(t *testing.T) {
	t.Parallel()
	for operator := range 2 {
		all := killPoints(operator + 1)
		all = slices.DeleteFunc(all, func(at killPoint) bool { return at.nth > 1 })
		if !everyKill() {
			all = all[len(all)/2:][:1]
		}
		for i, at := range all {
			by := removers()[(i+operator)%4]
			t.Run(fmt.Sprint("Operator ", operator+1, ".x, ", at.call, ", ", by[0], " ", by[1]), func(t *testing.T) {
				t.Parallel()
				suspendedThenRemoved(t, operator+1, at, by)
			})
		}
	}
}

// awaitSilent waits until the drill has not renewed its locks for so long that another process may take them.
func (w *world) awaitSilent(ctx context.Context) error {
	return wait.Until(ctx, wait.Every(time.Second), func() (bool, error) {
		for _, name := range drillLocks() {
			lock, _, err := runlock.Read(ctx, w.store, name)
			if err == nil && !lock.Released && !lock.Silent(time.Now()) {
				return false, nil
			}
			if err != nil && !failure.Is(err, failure.NotFound) {
				return true, err
			}
		}
		return true, nil
	})
}

func suspendedThenRemoved(t *testing.T, operator int, at killPoint, by []string) {
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
	s, cell := w.scene(Archive), Cell{Position: Suspended, Point: at.call}
	s.only = killedRun // the journal of its restore is no one else's
	if at.locks > 1 {
		cell.since = secondLock
	}
	p, _, end, err := s.asleep(ctx, cell, append(args, "--run-id", killedRun))
	defer end(cancel)
	require.NoError(t, err, "%s", &w.out)
	require.NoError(t, w.awaitSilent(ctx))
	require.NoError(t, w.expireDrill(ctx))
	require.NoError(t, w.succeeds(ctx, by...), "%s", &w.out)
	late, err := s.changesNothing(ctx, p, cell, nil)
	require.NoError(t, err, "%s\n%s", &w.out, p.out.String())
	if late {
		require.NoError(t, s.gc(ctx), "%s", &w.out)
	}
	require.NoError(t, leak.AwaitNoMore(ctx, w.bed, before, 10*time.Second), "%s\n%s", &w.out, p.out.String())
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
	require.NoError(t, w.killDrill(ctx, args, at), "%s", &w.out)
	require.Len(t, w.bed.Objects.List("pods", outside), at.probes)
	require.NoError(t, w.succeeds(ctx, by...), "%s", &w.out)
	require.NoError(t, leak.AwaitNoMore(ctx, w.bed, before, 10*time.Second), "%s", &w.out)
}
