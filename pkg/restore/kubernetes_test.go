package restore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// A restarted API server refuses everything for a moment and is then away for another: the step goes through both.
func TestTransientIsNotFinal_APIServerRestartsAtTheCreation_TheRestoreContinues(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := context.WithCancel(within(t))
	sink := &cancelAt{step: "await-pd", cancel: cancel}
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.create.tidbclusters", Position: fault.Slow, Nth: 2, Do: l.bed.Kube.Restart}))
	_, err := l.restore(ctx, t, sink, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, sink.hit, "%v", err)
	require.Empty(t, l.faults.Unreached())
	l.nothingLeft(t)
}

func TestWait_TargetDeleted_EndsAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	sink := &cancelAt{step: "await-pd", cancel: func() {
		require.NoError(t, l.bed.Kube.Remove(l.bed.Kube.Get("tidbclusters", "tidb", "copy")))
	}}
	_, err := l.restore(within(t), t, sink, nil)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "the cluster was deleted")
	l.nothingLeft(t)
}

// Its pods may use them: claims that stay must not be bound to volumes that are gone.
func TestUndo_ForeignTargetIsKept_VolumesUnderItsClaimsStay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	require.NoError(t, l.bed.Kube.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{
		Name: target(), RaftLogVolume: true, RecoveryMode: true, Version: "v8.5.0",
	})))
	ctx, cancel := context.WithCancel(within(t))
	sink := &cancelAt{step: "await-stores", cancel: cancel}
	_, err := l.restore(ctx, t, sink, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, sink.hit, "%v", err)
	require.Len(t, l.bed.Kube.List("persistentvolumeclaims", "tidb"), 6)
	require.Len(t, l.volumes(), 6)
	require.NotContains(t, failure.HintOf(err), "delete cluster", "it is not the run's")
}

// Stores that start apart may wait for each other for minutes: none starts before the volumes of all are bound.
func TestRun_StoresStart_AtTheSameMoment(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	tikv := func() int {
		n := 0
		for _, pod := range l.bed.Kube.List("pods", "tidb") {
			if pod.GetLabels()["app.kubernetes.io/component"] == "tikv" {
				n++
			}
		}
		return n
	}
	before, bound := -1, 0
	sink := &cancelAt{step: "start-tikv", cancel: func() {
		before, bound = tikv(), len(l.bed.Kube.List("persistentvolumeclaims", "tidb"))
	}}
	_, err := l.restore(within(t), t, sink, nil)
	require.NoError(t, err)
	require.Equal(t, 0, before, "pods of TiKV before the last claim was there")
	require.Equal(t, 6, bound)
	require.Equal(t, 3, tikv())
}
