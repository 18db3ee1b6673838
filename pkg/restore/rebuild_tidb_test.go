package restore

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
)

// tidbRuns is another's target, whose TiDB runs.
type tidbRuns struct{ kube.Restorer }

func (tidbRuns) TiDBPods(context.Context, cluster.Name) ([]string, error) {
	return []string{"copy-tidb-0"}, nil
}

type namedPD struct{ PD }

func (namedPD) ClusterID(context.Context) (uint64, error) { return 7, nil }

// oneAhead is what a run has written down that has found a replica.
type oneAhead struct{ resolve.NoProgress }

func (oneAhead) Load(context.Context) (resolve.Progress, bool, error) {
	return resolve.Progress{ClusterID: 7, EarlyApply: &resolve.EarlyApply{Rebuild: []resolve.Replica{{Region: 1, Store: 2}}}}, true, nil
}

// Nothing has been done to the cluster then: it is still in recovery mode.
func TestLeaveRecovery_TiDBRunsAndReplicasAreToBeRebuilt_IsRefused(t *testing.T) {
	t.Parallel()
	name := cluster.Name{Namespace: "tidb", Name: "copy"}
	r := newRun(Deps{Kube: tidbRuns{}, Store: objstoretest.NewMemory(nil)}, Options{Target: name, Backup: "b"}, byRun)
	r.pd.PD = namedPD{}
	r.resolver.Target(resolve.Config{Cluster: name, Progress: oneAhead{}}, r.pd.PD)
	err := r.runner.Check(t.Context(), phase.Step{Phase: phaseTiDB, Name: "leave-recovery", Deadline: time.Minute, Do: r.leaveRecovery})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "copy-tidb-0")
	require.Contains(t, failure.HintOf(err), "spec.tidb.replicas to 0")
}

// Whatever runs beside it: the step that lets TiDB start comes after the one that rebuilds, in a restore and in a resolve.
func TestServingSteps_TiDBStartsAfterTheRebuild(t *testing.T) {
	t.Parallel()
	r := newRun(Deps{}, Options{}, byRun)
	for _, steps := range [][]phase.Step{r.restoreSteps(), r.resolveSteps()} {
		i := slices.IndexFunc(steps, func(s phase.Step) bool { return s.Name == "start-tidb" })
		require.Equal(t, []string{"rebuild-replicas"}, steps[i].Order.After)
		i = slices.IndexFunc(steps, func(s phase.Step) bool { return s.Name == "await-leaders" })
		require.Empty(t, steps[i].Order.After, "nor does the cluster pass for one that serves before that")
	}
}
