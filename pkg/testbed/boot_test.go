package testbed_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// A cluster that is deleted while it is bootstrapped goes at once: its killed stores would never choose a leader.
func TestCluster_DeletedInItsBootstrap_EndsAtOnce(t *testing.T) {
	t.Parallel()
	bed, err := testbed.Start(t.Context(), testbed.Config{Dir: t.TempDir(), Nodes: 3, Scale: 50})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	name := cluster.Name{Namespace: "tidb", Name: "prod"}
	require.NoError(t, bed.Kube.Put(kubetest.NewTidbCluster(kubetest.ClusterOptions{
		Name: name, PD: 1, TiKV: 3, TiDB: 1, Version: "v8.5.0", SizeGiB: 100, RaftLogVolume: true,
	})))
	require.Eventually(t, func() bool {
		c := bed.Nodes.Cluster(name)
		return c != nil && len(c.Pods()) == 3 // the last one starts the bootstrap
	}, 30*time.Second, time.Millisecond)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		bed.Nodes.StopPD(name)
	}()
	select {
	case <-gone:
	case <-time.After(30 * time.Second):
		require.Fail(t, "the bootstrap still waits for a leader among killed stores")
	}
}
