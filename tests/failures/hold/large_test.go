package hold_test

import (
	"encoding/json"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/testbed"
	bench "github.com/tisnap/tisnap/pkg/testbed/scale"
)

// The topology of a large cluster goes to object storage: not into annotations, nor any other object of Kubernetes.
// https://github.com/pingcap/tidb-operator/issues/4781
// Catalogue: A23.
func Test300StoresWithFourVolumes_NothingLargeInKubernetes(t *testing.T) {
	const stores, volumes, most = 300, 4, 200 << 10
	p := startPlace(t, stores, func(c *testbed.Config) {
		c.StaticRegions = 1
		c.Rules.PendingInAccount, c.Rules.StorageGiB = stores*volumes, nil
	})
	tc := kubetest.NewTidbCluster(kubetest.ClusterOptions{
		Name: prod, PD: 1, TiKV: stores, TiDB: 1, Version: "v8.5.0", SizeGiB: 100, RaftLogVolume: true, WALVolume: true,
	})
	extra, _, err := unstructured.NestedSlice(tc.Object, "spec", "tikv", "storageVolumes")
	require.NoError(t, err)
	extra = append(extra, map[string]any{"name": "titan", "storageSize": "100Gi", "mountPath": "/var/lib/titan"})
	require.NoError(t, unstructured.SetNestedSlice(tc.Object, extra, "spec", "tikv", "storageVolumes"))
	require.NoError(t, p.Kube.Put(tc))
	ctx := within(t, 6*time.Minute)
	p.c, err = p.AwaitCluster(ctx, prod)
	require.NoError(t, err)

	before := p.Kube.MutatingCalls()
	e := p.backupUnder(ctx, t, "--max-hold", "2m", "--lease", "30s")
	p.sealed(t, e, stores*volumes)
	require.Equal(t, stores*volumes, e.doc.Report.Volumes)
	require.Equal(t, before, p.Kube.MutatingCalls(), "a backup writes nothing to Kubernetes")
	for _, resource := range []string{"tidbclusters", "pods", "persistentvolumeclaims", "events"} {
		for _, o := range p.Kube.List(resource, prod.Namespace) {
			body, err := json.Marshal(o)
			require.NoError(t, err)
			require.Less(t, len(body), most, "%s %s", resource, o.GetName())
		}
	}
}

// What a process keeps does not grow with the runs that failed in it.
func TestFailingRuns_LeaveNoGoroutinesAndNoConnections(t *testing.T) {
	t.Parallel()
	ctx := within(t, 5*time.Minute)
	bed, plan, err := bench.StartSmall(ctx, t.TempDir())
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	kinds := bench.Failures()
	for i, rule := range kinds {
		plan.Clear()
		var reached atomic.Bool
		rule.Do = func() { reached.Store(true) }
		require.NoError(t, plan.Add(rule))
		// In this process, so that the leak detector at the end of all tests sees what stays.
		code := cli.Run(ctx, append(bench.FailingBackup(i), "--endpoint-url", bed.AWS(), "--region", testbed.Region, "--kubeconfig", bed.Kubeconfig()),
			cli.Streams{Out: io.Discard, Err: io.Discard}, cli.Version{Version: "test"})
		require.NotZero(t, code, rule.Point)
		require.True(t, reached.Load(), rule.Point)
		require.Empty(t, bed.Nodes.Cluster(bench.Cluster()).Held(), rule.Point)
	}
}
