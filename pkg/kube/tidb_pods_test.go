package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
)

func TestTiDBPods_ThoseThatEndCountAndThoseThatEndedDoNot(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	require.NoError(t, l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: source("dst"), Run: run}))
	pod := func(name, instance, component, phase string, metadata map[string]any) {
		metadata["name"], metadata["namespace"] = name, "tidb"
		metadata["labels"] = map[string]any{"app.kubernetes.io/instance": instance, "app.kubernetes.io/component": component}
		require.NoError(t, l.server.Put(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": map[string]any{"phase": phase},
			"spec": map[string]any{"containers": []any{map[string]any{"name": component, "image": "i"}}},
		}}))
	}
	require.Empty(t, must(l.client.TiDBPods(t.Context(), source("dst"))))
	pod("dst-tidb-0", "dst", "tidb", "Running", map[string]any{"deletionTimestamp": "2026-11-24T00:00:00Z", "finalizers": []any{"f"}})
	pod("dst-tidb-1", "dst", "tidb", "Failed", map[string]any{})
	pod("dst-tikv-0", "dst", "tikv", "Running", map[string]any{})
	pod("src-tidb-0", "src", "tidb", "Running", map[string]any{})
	require.Equal(t, []string{"dst-tidb-0"}, must(l.client.TiDBPods(t.Context(), source("dst"))))
	l.server.Deny("list", "pods")
	_, err := l.client.TiDBPods(t.Context(), source("dst"))
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
}
