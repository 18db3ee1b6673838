package operator_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/tests/operator"
)

// two makes a cluster of three stores in two Kubernetes clusters, one in the first and two in the second.
func two(t *testing.T) (*operator.Federation, *testbed.Cluster) {
	t.Helper()
	east, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{Dir: t.TempDir(), Scale: 10, Rules: ebstest.QuickRules()})
	require.NoError(t, err)
	t.Cleanup(east.Close)
	west, err := east.AddKubernetes(context.WithoutCancel(t.Context()), east.EC2, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(west.Close)
	member := func(bed *testbed.Testbed, at string, stores int) *operator.Member {
		name := func(s string) cluster.Name { return cluster.Name{Namespace: "tidb", Name: s + "-" + at} }
		return &operator.Member{
			Operator: &operator.Operator{Bed: bed, Dir: t.TempDir(), Program: program(t), Place: "vb1-k8s-" + at},
			Source:   name("prod"), Target: name("copy"), Stores: stores,
		}
	}
	f := &operator.Federation{Members: []*operator.Member{member(east, "a", 1), member(west, "b", 2)}}
	var parts []testbed.Part
	for _, m := range f.Members {
		parts = append(parts, testbed.Part{Bed: m.Bed, Name: m.Source, Stores: m.Stores})
	}
	c, err := testbed.CreateJoint(within(t), parts...)
	require.NoError(t, err)
	require.Len(t, c.Stores(), 3)
	return f, c
}

// A VolumeBackup and a VolumeRestore over two Kubernetes clusters: each has its own jobs, storage and part of the stores.
// Transfers continue between the cuts of the two, so their backup ts differ; every row of both is back at the lower one.
func TestOperator_TwoKubernetesClusters_EveryRowIsBackAtTheLowestTS(t *testing.T) {
	t.Parallel()
	f, c := two(t)
	load, err := workload.New(workload.Config{PD: c.PD.URLs(), Accounts: 600, Clients: 6, Regions: 12, Seed: 21})
	require.NoError(t, err)
	t.Cleanup(func() { _ = load.Close() })
	require.NoError(t, load.Load(within(t)))

	loadCtx, stop := context.WithCancel(within(t))
	defer stop()
	var transfers sync.WaitGroup
	transfers.Go(func() { err = load.Run(loadCtx) })
	backupErr := f.Backup(within(t), func() error {
		before := load.Counters().Commits
		require.Eventually(t, func() bool { return load.Counters().Commits > before+20 }, time.Minute, 10*time.Millisecond)
		return nil
	})
	stop()
	transfers.Wait()
	require.NoError(t, backupErr)
	require.NoError(t, err)
	require.Empty(t, c.Held())
	require.Less(t, f.Members[0].TS, f.Members[1].TS)
	require.NoError(t, load.Settle(within(t)))
	before, err := load.CopyAt(within(t), f.Members[0].TS)
	require.NoError(t, err)
	require.NoError(t, load.Close())

	for _, i := range []int{1, 0} { // PD goes last
		m := f.Members[i]
		n, err := m.Bed.DestroyCluster(within(t), m.Source)
		require.NoError(t, err)
		require.Equal(t, 2*m.Stores, n)
	}
	require.NoError(t, f.CreateTargets(within(t)))
	require.NoError(t, f.RestoreVolumes(within(t)))
	ts, err := f.RestoreData(within(t))
	require.NoError(t, err)
	require.Equal(t, f.Members[0].TS, ts)
	require.NoError(t, f.Finish(within(t)))

	first := f.Members[0]
	restored := first.Bed.Nodes.Cluster(first.Target)
	require.Len(t, restored.Stores(), 3)
	require.False(t, restored.PD.Recovering())
	require.Empty(t, restored.Held())
	db, err := workload.Connect(within(t), restored.PD.URLs())
	require.NoError(t, err)
	defer func() { _ = db.Close() }() // only read from
	got, err := load.History().VerifyRestored(within(t), db, ts)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.Rows, 600)
	now, err := db.Now(within(t))
	require.NoError(t, err)
	after, err := db.CopyAt(within(t), now)
	require.NoError(t, err)
	require.Equal(t, before.Rows, after.Rows)
}

// The parts need not be prepared together: the stores of one may be up in recovery mode when the other is prepared. A
// part alone is never taken for a whole cluster.
func TestOperator_TwoKubernetesClusters_OnePartAfterTheOther(t *testing.T) {
	t.Parallel()
	f, _ := two(t)
	require.NoError(t, f.Backup(within(t), func() error { return nil }))
	for _, i := range []int{1, 0} {
		_, err := f.Members[i].Bed.DestroyCluster(within(t), f.Members[i].Source)
		require.NoError(t, err)
	}
	require.NoError(t, f.CreateTargets(within(t)))
	a, b := f.Members[0], f.Members[1]
	_, err := b.Operator.RestoreVolumes(within(t), b.Target)
	require.NoError(t, err, "its stores are up now")
	pd := a.Bed.Nodes.Cluster(a.Target).PD
	require.True(t, pd.Recovering())

	data, _, err := a.BeginRestoreData(within(t), a.Target)
	require.NoError(t, err)
	require.NoError(t, data.AwaitLines(within(t), "await-stores"))
	require.Error(t, data.Terminate(), "it waits for the store of its own part")
	require.False(t, data.Printed("EBS restore success"))
	require.True(t, pd.Recovering())

	_, err = a.Operator.RestoreVolumes(within(t), a.Target)
	require.NoError(t, err, "PD knows the stores of the other part, under the mark")
	_, err = f.RestoreData(within(t))
	require.NoError(t, err)
	_, err = a.Operator.RestoreVolumes(within(t), a.Target)
	require.ErrorContains(t, err, "its PD knows 3 stores already")
	require.False(t, pd.Recovering())
	require.NoError(t, f.Finish(within(t)))
}
