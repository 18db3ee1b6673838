package operator_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
	"github.com/tisnap/tisnap/tests/operator"
)

// secured is a cluster with rows whose PD and TiKV serve TLS alone, and want a client's certificate.
func secured(t *testing.T) (*operator.Operator, *testbed.TLS, *workload.Workload) {
	t.Helper()
	secure, err := testbed.NewTLS(t.TempDir())
	require.NoError(t, err)
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{
		Dir: t.TempDir(), Scale: 10, Rules: ebstest.QuickRules(), TLS: secure.Config,
	})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	for _, name := range []cluster.Name{crossedSource, crossedTarget} {
		for _, component := range []string{"pd", "tikv", "tidb"} { // the user makes them before the cluster
			require.NoError(t, bed.Kube.Put(&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Secret",
				"metadata": map[string]any{"name": name.Name + "-" + component + "-cluster-secret", "namespace": name.Namespace},
			}}))
		}
	}
	c, err := bed.CreateCluster(within(t), crossedSource, 3)
	require.NoError(t, err)
	load, err := workload.New(workload.Config{PD: c.PD.URLs(), TLS: secure.Client, Accounts: 200, Clients: 2, Regions: 4, Seed: 32})
	require.NoError(t, err)
	t.Cleanup(func() { _ = load.Close() })
	require.NoError(t, load.Load(within(t)))
	db, err := load.Cluster(within(t))
	require.NoError(t, err)
	loaded, err := db.Now(within(t))
	require.NoError(t, err)
	require.NoError(t, c.AwaitResolved(within(t), loaded))
	return &operator.Operator{Bed: bed, Dir: t.TempDir(), Program: program(t)}, secure, load
}

// A whole chain over TLS: the manager names the files by --ca, --cert and --key in each call. Without them, or without the
// client's own, nothing is held.
func TestOperator_ClustersWithTLS_EveryRowIsBack(t *testing.T) {
	t.Parallel()
	o, secure, load := secured(t)
	for name, files := range map[string]cluster.TLSFiles{"no TLS": {}, "no certificate of the client": {CA: secure.Client.CA}} {
		o.TLS = files
		_, err := o.Initialize(within(t), crossedSource)
		require.Error(t, err, name)
		require.Empty(t, o.Bed.Nodes.Cluster(crossedSource).Held(), name)
	}

	o.TLS = secure.Client
	loadCtx, stop := context.WithCancel(within(t))
	defer stop()
	var transfers sync.WaitGroup
	var loadErr error
	transfers.Go(func() { loadErr = load.Run(loadCtx) })
	ts, err := o.Backup(within(t), crossedSource)
	stop()
	transfers.Wait()
	require.NoError(t, err)
	require.NoError(t, loadErr)
	require.NoError(t, load.Settle(within(t)))
	require.NoError(t, load.Close())
	_, err = o.Bed.DestroyCluster(within(t), crossedSource)
	require.NoError(t, err)

	require.NoError(t, o.Restore(within(t), crossedTarget, 3, ts))
	restored, err := workload.ConnectTLS(within(t), o.Bed.Nodes.Cluster(crossedTarget).PD.URLs(), secure.Client)
	require.NoError(t, err)
	defer func() { _ = restored.Close() }() // only read from
	got, err := load.History().VerifyRestored(within(t), restored, ts)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.Rows, 200)
}
