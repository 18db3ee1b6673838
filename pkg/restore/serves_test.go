package restore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// tidbShown is a Kubernetes that shows so many TiDB members as healthy, whatever they are.
type tidbShown struct {
	kube.Restorer
	ready int
}

func (k tidbShown) Cluster(ctx context.Context, name cluster.Name) (kube.TidbCluster, error) {
	tc, err := k.Restorer.Cluster(ctx, name)
	tc.TiDBReady = k.ready
	return tc, err
}

// silentTiDB is pods of which the target's TiDB never answers.
type silentTiDB struct{ kubetest.Runtime }

func (r silentTiDB) TiDBReady(name cluster.Name) int {
	if name == target() {
		return 0
	}
	return r.Runtime.TiDBReady(name)
}

// leaderless is a TiKV whose stores cannot report what they lead.
type leaderless struct{ restore.TiKV }

func (leaderless) LedRegions(context.Context, string) ([]cluster.Region, []cluster.RegionID, error) {
	return nil, nil, failure.New(failure.Unready, "count leaders", "store", "not yet")
}

// While raft elects its leaders TiDB comes up. Once a TiDB answers, users may write: a run that ends then keeps the cluster,
// also if not all leaders were seen. Before that, all is undone.
func TestRun_CancelledWhileLeadersAreElected_IsKeptOnceTiDBAnswers(t *testing.T) {
	t.Parallel()
	for name, ready := range map[string]int{"no TiDB answers": 0, "one TiDB answers": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, func(c *testbed.Config) {
				if ready == 0 { // also for the call that deletes the cluster, which asks itself
					c.Runtime = func(r kubetest.Runtime) kubetest.Runtime { return silentTiDB{r} }
				}
			})
			ctx, cancel := context.WithCancel(within(t))
			defer cancel()
			sink := &cancelAt{step: journal.StepAwaitLeaders, cancel: cancel}
			if ready > 0 {
				sink.step, sink.at = "await-tidb", phase.StepFinished
			}
			deps, opts := l.next(t, sink)
			deps.Kube, deps.TiKV = tidbShown{deps.Kube, ready}, leaderless{deps.TiKV}
			result, err := restore.Run(ctx, deps, opts)
			require.ErrorIs(t, err, context.Canceled)
			require.True(t, sink.hit)
			require.False(t, result.Restored, "the leaders were not seen")
			if ready == 0 {
				l.nothingLeft(t)
				return
			}
			require.ErrorContains(t, err, "the cluster is kept because TiDB already answers")
			require.Equal(t, "finish it with: tisnap resolve tidb/copy --backup b", failure.HintOf(err))
			require.Len(t, l.volumes(), 6)
			require.NotNil(t, l.bed.Kube.Get("tidbclusters", "tidb", "copy"))
			require.Empty(t, l.bed.Nodes.Cluster(target()).PD.TTLConfigs(), "PD schedules again")
			result, err = l.resolve(within(t), t)
			require.NoError(t, err, "the command that was named finishes it")
			require.True(t, result.Restored)
		})
	}
}
