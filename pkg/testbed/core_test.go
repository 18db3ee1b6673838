package testbed_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/testbed"
	"github.com/tisnap/tisnap/pkg/testbed/workload"
)

// A cluster of Operator 2.x serves like one of 1.x, and no volume of it is modified; nothing is left of it but its snapshots.
func TestCluster_OfOperator2_ServesAndIsDestroyed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	bed, err := testbed.Start(context.WithoutCancel(ctx), testbed.Config{Dir: t.TempDir(), Nodes: 3, Scale: 50, Operator: 2})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	name := cluster.Name{Namespace: "tidb", Name: "prod"}
	c, err := bed.CreateCluster(ctx, name, 3)
	require.NoError(t, err)
	require.Len(t, bed.Objects.List("tikvgroups", "tidb"), 2)
	volumes := bed.Volumes(name)
	require.Len(t, volumes, 6)

	load, err := workload.New(workload.Config{PD: c.PD.URLs(), Accounts: 10, Clients: 1})
	require.NoError(t, err)
	require.NoError(t, load.Load(ctx))
	require.NoError(t, load.Close())

	n, err := bed.DestroyCluster(ctx, name)
	require.NoError(t, err)
	require.Equal(t, 6, n)
	for _, v := range volumes {
		_, exists := bed.EC2.Volume(v)
		require.False(t, exists, v)
	}
	require.NotContains(t, strings.Join(bed.MutatingCalls(), "\n"), "ModifyVolume")
}

// PD is known by its pod's name, which ends with the namespace, and the Cluster has the service before it.
func TestPDOfOperator2_AdvertisesItsPod(t *testing.T) {
	t.Parallel()
	bed, err := testbed.Start(context.WithoutCancel(t.Context()), testbed.Config{Dir: t.TempDir(), Nodes: 3, Scale: 50, Operator: 2, DNSNames: true})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	c, err := bed.CreateCluster(t.Context(), cluster.Name{Namespace: "tidb", Name: "prod"}, 1)
	require.NoError(t, err)
	require.Regexp(t, `^http://prod-pd-pd-[a-z0-9]{6}\.prod-pd-pd-peer\.tidb:\d+$`, c.PD.URLs()[0])
	service, _, _ := unstructured.NestedString(bed.Objects.Get("clusters", "tidb", "prod").Object, "status", "pd")
	require.Regexp(t, `^http://prod-pd-pd\.tidb:\d+$`, service)
}

// Operator 2.x changes a volume by EC2's API, where everyone sees it.
func TestCluster_OfOperator2_LargerTemplate_ModifiesVolumes(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	bed, err := testbed.Start(context.WithoutCancel(ctx), testbed.Config{Dir: t.TempDir(), Nodes: 3, Scale: 50})
	require.NoError(t, err)
	t.Cleanup(bed.Close)
	name := cluster.Name{Namespace: "tidb", Name: "prod"}
	for _, o := range kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: name, TiKV: 1, SizeGiB: 10, RaftLogVolume: true}) {
		require.NoError(t, bed.Objects.Put(o))
	}
	_, err = bed.AwaitCluster(ctx, name)
	require.NoError(t, err)
	group := bed.Objects.List("tikvgroups", "tidb")[0]
	volumes, _, _ := unstructured.NestedSlice(group.Object, "spec", "template", "spec", "volumes")
	volumes[0].(map[string]any)["storage"] = "20Gi"
	require.NoError(t, unstructured.SetNestedSlice(group.Object, volumes, "spec", "template", "spec", "volumes"))
	require.NoError(t, bed.Objects.Put(group))
	require.Eventually(t, func() bool {
		return strings.Count(strings.Join(bed.MutatingCalls(), "\n"), "ModifyVolume") == 1
	}, 30*time.Second, 10*time.Millisecond)
}
