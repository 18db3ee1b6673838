package restore_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestRun_AfterRestore_VolumesGetTheRunningProfileAndRefusalsAreReported(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	fast := func(o *restore.Options) {
		o.Volume = cluster.VolumeSpec{IOPS: 7000, ThroughputMiB: 400}
		o.After = cluster.VolumeSpec{IOPS: 4000, ThroughputMiB: 200}
	}
	require.NoError(t, l.faults.Add(fault.Rule{Point: "ec2.ModifyVolume", Code: "VolumeModificationRateExceeded", Nth: 6, Times: -1}))
	result, err := l.restore(within(t), t, nil, fast)
	require.Equal(t, failure.Partial, failure.KindOf(err), "%v", err)
	require.True(t, result.Restored, "the cluster serves all the same")
	require.Len(t, result.Left, 1)
	require.Contains(t, result.Left[0], "1 of 6 volumes keep the performance of the restore")
	slow := 0
	for _, v := range l.volumes() {
		if v.Spec.IOPS == 4000 && v.Spec.ThroughputMiB == 200 {
			slow++
		}
	}
	require.Equal(t, 5, slow)
	require.NotNil(t, l.bed.Kube.Get("tidbclusters", "tidb", "copy"))
}

// A target that a person made stays, and what the run made for it goes: its claims and volumes.
func TestRun_TargetOfAPersonFails_ItsClaimsAndVolumesGo(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	require.NoError(t, l.bed.Kube.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{
		Name: target(), PD: 1, TiKV: 3, TiDB: 1, Version: "v8.5.0", SizeGiB: 100, RaftLogVolume: true, RecoveryMode: true,
	})))
	for _, step := range []string{"create-volumes", "bind-volumes", "start-tikv"} {
		ctx, cancel := context.WithCancel(within(t))
		_, err := l.restore(ctx, t, &cancelAt{step: step, cancel: cancel}, nil)
		cancel()
		require.ErrorIs(t, err, context.Canceled)
		if step == "start-tikv" {
			break // TiKV may have started: the cluster is checked below
		}
		require.Empty(t, l.volumes(), step)
		for _, pvc := range l.bed.Kube.List("persistentvolumeclaims", "tidb") {
			require.NotContains(t, pvc.GetName(), "tikv", step)
		}
		require.NotNil(t, l.bed.Kube.Get("tidbclusters", "tidb", "copy"), step)
	}
	require.NotNil(t, l.bed.Kube.Get("tidbclusters", "tidb", "copy"))
}
