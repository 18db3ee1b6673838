package kube_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
)

func discoveryNamesTidbCluster(t *testing.T, s system) {
	client, err := discovery.NewDiscoveryClientForConfig(s.config)
	require.NoError(t, err)
	list, err := client.ServerResourcesForGroupVersion("pingcap.com/v1alpha1")
	require.NoError(t, err)
	for _, r := range list.APIResources {
		if r.Name == "tidbclusters" {
			assert.Equal(t, "TidbCluster", r.Kind)
			assert.True(t, r.Namespaced)
			assert.Contains(t, r.ShortNames, "tc")
			assert.Subset(t, r.Verbs, []string{"create", "delete", "get", "list", "patch", "update", "watch"})
			return
		}
	}
	require.Fail(t, "tidbclusters are not served")
}

func missingClusterIsNotFound(t *testing.T, s system) {
	require.NoError(t, s.client.CreateCluster(t.Context(), source(t), s.target("there")))
	_, err := s.client.Cluster(t.Context(), s.name("missing"))
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "there")
	_, err = s.client.Waiting(t.Context(), s.name("missing"))
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
}

func clusterIsMadeOnce(t *testing.T, s system) {
	for range 2 {
		require.NoError(t, s.client.CreateCluster(t.Context(), source(t), s.target("dst")))
	}
	made, err := s.client.Cluster(t.Context(), s.name("dst"))
	require.NoError(t, err)
	assert.True(t, made.RecoveryMode)
	assert.Equal(t, s.run, made.Run)
	another := s.target("dst")
	another.Run = "rst-of-another"
	err = s.client.CreateCluster(t.Context(), source(t), another)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
}

// A server that prunes a field of the spec would make another cluster than the one that was backed up.
func clusterIsKept(t *testing.T, s system) {
	require.NoError(t, s.client.CreateCluster(t.Context(), source(t), s.target("dst")))
	var want, made struct{ Spec map[string]any }
	require.NoError(t, json.Unmarshal(source(t), &want))
	got, err := s.client.Cluster(t.Context(), s.name("dst"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(got.Object, &made))
	want.Spec["recoveryMode"] = true
	want.Spec["tidb"].(map[string]any)["replicas"] = float64(0) // until the data are resolved
	for _, component := range []string{"pd", "tikv", "tidb"} {  // they are off while a restore resolves its data
		delete(want.Spec[component].(map[string]any), "maxFailoverCount")
		delete(made.Spec[component].(map[string]any), "maxFailoverCount")
	}
	delete(made.Spec["pd"].(map[string]any), "initWaitTime") // 0 by default, which the real server fills in
	require.Equal(t, want.Spec, made.Spec)
}

func oldVersionIsConflict(t *testing.T, s system) {
	require.NoError(t, s.client.CreateCluster(t.Context(), source(t), s.target("dst")))
	old, err := s.clusters().Get(t.Context(), "dst", metav1.GetOptions{})
	require.NoError(t, err)
	annotate := func(o *unstructured.Unstructured, value string) error {
		next := o.DeepCopy()
		a := next.GetAnnotations()
		a["test"] = value
		next.SetAnnotations(a)
		_, err := s.clusters().Update(t.Context(), next, metav1.UpdateOptions{})
		return err
	}
	eventually(t, "a write without a conflict", func() bool { // the Operator writes, too
		if annotate(old, "first") == nil {
			return true
		}
		old, err = s.clusters().Get(t.Context(), "dst", metav1.GetOptions{})
		require.NoError(t, err)
		return false
	})
	requireReason(t, metav1.StatusReasonConflict, annotate(old, "second"))
	require.NoError(t, s.client.StartTiKV(t.Context(), s.name("dst")))
	require.NoError(t, s.client.LeaveRecovery(t.Context(), s.name("dst")))
	require.NoError(t, s.client.StartTiDB(t.Context(), s.name("dst")))
	now, err := s.client.Cluster(t.Context(), s.name("dst"))
	require.NoError(t, err)
	require.False(t, now.RecoveryMode)
	require.Equal(t, 1, now.TiDBReplicas)
}

func targetIsDeleted(t *testing.T, s system) {
	require.NoError(t, s.client.CreateCluster(t.Context(), source(t), s.target("dst")))
	require.NoError(t, s.client.BindVolume(t.Context(), s.volume(t, "dst", 0)))
	left, err := s.client.Leftover(t.Context(), s.name("dst"), s.run)
	require.NoError(t, err)
	require.Empty(t, left.Serves)
	require.NotEmpty(t, left.UID)
	require.Len(t, left.Claims, 1)
	require.Len(t, left.Volumes, 1)
	handles, err := s.client.Handles(t.Context())
	require.NoError(t, err)
	require.Contains(t, handles, s.volume(t, "dst", 0).Volume)

	err = s.client.DeleteCluster(t.Context(), s.name("dst"), "rst-of-another", false)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	for range 2 {
		require.NoError(t, s.client.DeleteCluster(t.Context(), s.name("dst"), s.run, false))
	}
	eventually(t, "all is gone", func() bool {
		left, err := s.client.Leftover(t.Context(), s.name("dst"), s.run)
		return err == nil && left.Empty()
	})
	s.nothing(t)
	require.NoError(t, s.client.DryRun(t.Context(), source(t), s.target("dst"), nil, false), "the name is free again")
}

func permissionIsNamed(t *testing.T, s system) {
	require.NoError(t, s.client.Allowed(t.Context(), s.namespace, nil))
	_, absent := s.core.Discovery().ServerResourcesForGroupVersion(operator2.GroupVersion)
	for _, p := range kube.Permissions(nil) {
		if absent != nil && strings.HasSuffix(p, " "+operator2.Clusters) {
			continue // of what is not installed
		}
		t.Run(p, func(t *testing.T) {
			err := s.without(t, p).Allowed(t.Context(), s.namespace, nil)
			require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "may not "+p)
		})
	}
	s.nothing(t)
}
