package kubetest_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

// Below an Operator 2.x that is another process, there is the kubelet alone: it makes nothing of the Operator's, gives the claims of
// PD their volumes, and runs what has a pod on a node.
func TestKubelet_BelowAnotherOperator2_RunsWhatHasAPod(t *testing.T) {
	t.Parallel()
	server := kubetest.New(kubetest.Config{})
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(server.Close)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, server.WriteKubeconfig(path))
	require.NoError(t, server.AddNode("node-0", "i-0", "us-west-2a"))
	connected, err := kubetest.Connect(t.Context(), path, t.Logf)
	require.NoError(t, err)
	t.Cleanup(connected.Close)
	runOperator(t, kubetest.NewOperator(connected.Objects, &kubetest.IdleRuntime{}, &kubetest.MemoryDisks{}, kubetest.OperatorConfig{
		Retry: 10 * time.Millisecond, Poll: 10 * time.Millisecond,
	}))
	objects := kubetest.NewCoreCluster(kubetest.ClusterOptions{Name: name, TiKV: 1})
	for _, o := range objects[:2] { // Cluster and PDGroup
		require.NoError(t, server.Put(o))
	}
	labels := map[string]string{
		"pingcap.com/cluster": "src", "pingcap.com/group": "src-pd", "pingcap.com/component": "pd", "pingcap.com/instance": "src-pd-aaaaaa",
	}
	spec, _, _ := unstructured.NestedMap(objects[1].Object, "spec", "template", "spec")
	spec["cluster"] = map[string]any{"name": "src"}
	pd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "core.pingcap.com/v1alpha1", "kind": "PD", "spec": spec}}
	claim := claimOf(pd, "src-pd-pd-aaaaaa")
	unstructured.RemoveNestedField(claim.Object, "spec", "volumeName")
	claim.SetOwnerReferences(nil)
	claim.SetAnnotations(map[string]string{"volume.kubernetes.io/selected-node": "node-0"})
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "spec": map[string]any{"containers": []any{map[string]any{"name": "pd", "image": "pd"}}},
	}}
	for object, is := range map[*unstructured.Unstructured]string{pd: "src-pd-aaaaaa", claim: claim.GetName(), pod: "src-pd-pd-aaaaaa"} {
		object.SetNamespace("tidb")
		object.SetName(is)
		object.SetLabels(labels)
		require.NoError(t, server.Put(object))
	}
	require.Eventually(t, func() bool { return len(server.List("persistentvolumes", "")) == 1 }, patience, 5*time.Millisecond)
	phase := func() string { return text(server.Get("pods", "tidb", pod.GetName()), "status", "phase") }
	require.NotEqual(t, "Running", phase(), "it is on no node")
	now := server.Get("pods", "tidb", pod.GetName())
	require.NoError(t, unstructured.SetNestedField(now.Object, "node-0", "spec", "nodeName"))
	require.NoError(t, server.Put(now))
	require.Eventually(t, func() bool { return phase() == "Running" }, patience, 5*time.Millisecond)
	require.Empty(t, server.List("services", "tidb"), "they are the Operator's")
	require.Empty(t, server.Get("clusters", "tidb", "src").GetFinalizers())
}
