package kube_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/runmark"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// started is a target of the run whose three stores run, on volumes of the run.
func (l *lab) started(t *testing.T) (target cluster.Name, volumes []kube.RestoredVolume) {
	t.Helper()
	pods := l.awaitReady(t, l.start(t, kubetest.ClusterOptions{Name: source("src")}), 3)
	object, err := l.server.Get("tidbclusters", "tidb", "src").MarshalJSON()
	require.NoError(t, err)
	target = source("dst")
	require.NoError(t, l.client.CreateCluster(t.Context(), object, kube.Target{Name: target, Run: run}))
	volumes = l.restored(pods, target, "us-west-2a")
	for _, v := range volumes {
		require.NoError(t, l.client.BindVolume(t.Context(), v))
	}
	require.NoError(t, l.client.StartTiKV(t.Context(), target))
	l.awaitReady(t, target, 3)
	return target, volumes
}

// A StatefulSet that lives makes a deleted claim again, and the CSI driver a new volume, which no record would name.
func TestDeleteCluster_StatefulSetsOutliveTheTidbCluster_NothingIsMadeAgain(t *testing.T) {
	t.Parallel()
	l := newLabWith(t, kubetest.OperatorConfig{Collect: 24 * time.Hour})
	target, volumes := l.started(t)
	l.faults.Watch(func(point string) *fault.Rule {
		if point == "kube.delete.persistentvolumeclaims" {
			assert.Nil(t, l.server.Get("statefulsets", "tidb", "dst-tikv"), "it makes a deleted claim again")
		}
		return nil
	})
	require.NoError(t, l.client.DeleteCluster(t.Context(), target, run, false))
	require.Nil(t, l.server.Get("statefulsets", "tidb", "dst-tikv"))
	require.Len(t, l.server.List("persistentvolumeclaims", ""), 3, "the source's")
	require.Len(t, l.server.List("persistentvolumes", ""), 3, "the source's")
	for _, v := range volumes {
		require.NotEmpty(t, l.disks.Zone(v.Volume), "the run deletes it, not Kubernetes")
	}
	require.Empty(t, must(l.client.Claims(t.Context(), target)), "the name is free")
	require.NotNil(t, l.server.Get("statefulsets", "tidb", "src-tikv"), "of another cluster")
}

// The claim comes after the claims were marked, and with it a volume that carries no run.
func TestDeleteCluster_ClaimMadeAtTheLastMoment_IsDeletedWithItsVolume(t *testing.T) {
	t.Parallel()
	l := newLabWith(t, kubetest.OperatorConfig{Collect: 24 * time.Hour}) // or there is nothing to delete
	target, _ := l.started(t)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.delete.statefulsets", Position: fault.Slow, Do: func() {
		l.provision(t, "dst")
	}}))
	require.NoError(t, l.client.DeleteCluster(t.Context(), target, run, false))
	require.Empty(t, l.faults.Unreached())
	require.Nil(t, l.server.Get("persistentvolumeclaims", "tidb", "pd-dst-pd-0"))
	require.Nil(t, l.server.Get("persistentvolumes", "", "pvc-dst"))
	require.Empty(t, l.disks.Zone("vol-0dst"))
}

// By the label alone a claim of another cluster, or of an earlier one, would be taken for the run's.
func TestDeleteCluster_ClaimsThatAreNotOfThisCluster_Stay(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	claim := func(name string) {
		require.NoError(t, l.server.Put(&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"metadata": map[string]any{
				"name": name, "namespace": "tidb", "labels": map[string]any{"app.kubernetes.io/instance": "dst"},
			},
			"spec": map[string]any{
				"accessModes": []any{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
			},
		}}))
	}
	bound(t, l)
	claim("pd-dst-pd-1") // the target's
	claim("data-grafana-0")
	claim("pd-dst-pd-0")
	earlier := l.server.Get("persistentvolumeclaims", "tidb", "pd-dst-pd-0")
	l.server.SetCreated(earlier, earlier.GetCreationTimestamp().Add(-time.Hour))
	require.NoError(t, l.server.Put(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": map[string]any{"name": "dst-tikv", "namespace": "tidb", "ownerReferences": []any{map[string]any{
			"apiVersion": "pingcap.com/v1alpha1", "kind": "TidbCluster", "name": "dst", "uid": "another", "controller": true,
		}}},
	}}))
	require.NoError(t, l.client.DeleteCluster(t.Context(), source("dst"), run, false))
	require.NotNil(t, l.server.Get("statefulsets", "tidb", "dst-tikv"))
	var stay []string
	for _, o := range l.server.List("persistentvolumeclaims", "") {
		stay = append(stay, o.GetName())
		require.NotContains(t, o.GetAnnotations(), runmark.Key)
	}
	require.Equal(t, []string{"data-grafana-0", "pd-dst-pd-0"}, stay)
}

// Something keeps it: the end names it, and nothing that uses its claims loses them.
func TestDeleteCluster_PodsThatDoNotEnd_AreNamedAndTheirClaimsStay(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	bound(t, l)
	require.NoError(t, l.server.Put(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{
			"name": "dst-tikv-0", "namespace": "tidb",
			"ownerReferences": []any{map[string]any{
				"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "dst-tikv", "uid": "gone", "controller": true,
			}},
		},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "tikv", "image": "tikv"}}},
	}}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := l.client.DeleteCluster(ctx, source("dst"), run, false)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "still there: pod dst-tikv-0")
	require.Len(t, l.server.List("persistentvolumeclaims", ""), 3)
	require.NoError(t, l.server.Remove(l.server.Get("pods", "tidb", "dst-tikv-0")))
	require.NoError(t, l.client.DeleteCluster(t.Context(), source("dst"), run, false))
	require.Empty(t, l.server.List("persistentvolumeclaims", ""))
}
