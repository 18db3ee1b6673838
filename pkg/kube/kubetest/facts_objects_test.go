package kubetest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/kube/kubetest"
)

const attacher = "external-attacher/ebs-csi-aws-com"

func TestFacts_IDOfTheCluster_IsOnPodsClaimsAndVolumes(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	id, _, _ := unstructured.NestedString(l.server.Get("tidbclusters", "tidb", "src").Object, "status", "clusterID")
	require.NotEmpty(t, id)
	for _, o := range []*unstructured.Unstructured{
		l.server.Get("pods", "tidb", "src-tikv-0"), l.server.Get("persistentvolumeclaims", "tidb", "tikv-src-tikv-0"),
		l.server.List("persistentvolumes", "")[0],
	} {
		require.Equal(t, id, o.GetLabels()["tidb.pingcap.com/cluster-id"], o.GetKind())
	}
}

func TestFacts_AttachedVolume_HasTheAttachersObjects(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	pv := l.server.List("persistentvolumes", "")[0]
	require.Contains(t, pv.GetFinalizers(), attacher)
	require.Contains(t, pv.GetAnnotations(), "volume.kubernetes.io/provisioner-deletion-secret-name")
	attachments := l.server.List("volumeattachments", "")
	require.Len(t, attachments, 1)
	of, _, _ := unstructured.NestedString(attachments[0].Object, "spec", "source", "persistentVolumeName")
	require.Equal(t, pv.GetName(), of)
	require.NoError(t, l.server.Remove(l.server.Get("tidbclusters", "tidb", "src")))
	l.eventually(t, "detached", func() bool {
		return len(l.server.List("volumeattachments", "")) == 0 &&
			!slices.Contains(l.server.List("persistentvolumes", "")[0].GetFinalizers(), attacher)
	})
}

func TestFacts_DeletedVolumeThatIsAttached_StaysUntilItIsDetached(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	pv := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "PersistentVolume", "metadata": map[string]any{"name": "pv", "finalizers": []any{attacher}},
		"spec": map[string]any{
			"accessModes": []any{"ReadWriteOnce"}, "capacity": map[string]any{"storage": "1Gi"},
			"csi": map[string]any{"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"},
		},
	}}
	require.NoError(t, f.server.Put(pv))
	api := f.core.CoreV1().PersistentVolumes()
	require.NoError(t, api.Delete(t.Context(), "pv", metav1.DeleteOptions{}))
	now, err := api.Get(t.Context(), "pv", metav1.GetOptions{})
	require.NoError(t, err)
	require.NotNil(t, now.DeletionTimestamp)
	now.Finalizers = nil
	_, err = api.Update(t.Context(), now, metav1.UpdateOptions{})
	require.NoError(t, err)
	_, err = api.Get(t.Context(), "pv", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "its last finalizer is gone: %v", err)
}

func TestFacts_StatusFieldsThatAreNotAlwaysThere(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	status := func(fields ...string) map[string]any {
		m, _, _ := unstructured.NestedMap(l.server.Get("tidbclusters", "tidb", "src").Object, append([]string{"status"}, fields...)...)
		return m
	}
	require.NotEmpty(t, status("tidb", "members", "src-tidb-0"))
	require.NotContains(t, status("tidb", "members", "src-tidb-0"), "node")
	l.runtime.SetUnready("tidb", "src-tikv-0", "it restarts")
	l.eventually(t, "the store leads nothing", func() bool {
		for _, s := range status("tikv", "stores") {
			store, _ := s.(map[string]any)
			return store["state"] == "Disconnected" && store["leaderCount"] == int64(0)
		}
		return false
	})
}

func TestFacts_DiscoveryPodDeleted_IsMadeAgain(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	discovery := func() *unstructured.Unstructured {
		for _, pod := range l.server.List("pods", "tidb") {
			if pod.GetLabels()["app.kubernetes.io/component"] == "discovery" {
				return pod
			}
		}
		return nil
	}
	first := discovery()
	require.NotNil(t, first)
	require.NoError(t, l.server.Remove(first))
	l.eventually(t, "made again", func() bool { return discovery() != nil && discovery().GetUID() != first.GetUID() })
	require.NoError(t, l.server.Remove(l.server.Get("tidbclusters", "tidb", "src")))
	require.Nil(t, discovery(), "it is collected with its cluster")
}

func TestFacts_StoreFailed_OneMorePodThanReplicas(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	l.eventually(t, "noted", func() bool { // the Operator writes the status, too
		tc := l.server.Get("tidbclusters", "tidb", "src")
		require.NoError(t, unstructured.SetNestedMap(tc.Object, map[string]any{"1": map[string]any{"podName": "src-tikv-0"}}, "status", "tikv", "failureStores"))
		require.NoError(t, l.server.Put(tc))
		return l.server.Get("pods", "tidb", "src-tikv-1") != nil
	})
	n, _, _ := unstructured.NestedInt64(l.server.Get("tidbclusters", "tidb", "src").Object, "spec", "tikv", "replicas")
	require.EqualValues(t, 1, n)
}

func TestFacts_PodsAddedLater_GetTheSizeOfTheSpec(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2a")
	l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1, SizeGiB: 30})
	l.eventually(t, "ready", func() bool { return l.ready(name) })
	tc := l.server.Get("tidbclusters", "tidb", "src")
	require.NoError(t, unstructured.SetNestedField(tc.Object, "20Gi", "spec", "tikv", "requests", "storage"))
	require.NoError(t, unstructured.SetNestedField(tc.Object, int64(2), "spec", "tikv", "replicas"))
	require.NoError(t, l.server.Put(tc))
	l.eventually(t, "a second pod", func() bool { return l.server.Get("persistentvolumeclaims", "tidb", "tikv-src-tikv-1") != nil })
	for ordinal, want := range []string{"30Gi", "20Gi"} {
		claim := l.server.Get("persistentvolumeclaims", "tidb", fmt.Sprintf("tikv-src-tikv-%d", ordinal))
		size, _, _ := unstructured.NestedString(claim.Object, "spec", "resources", "requests", "storage")
		require.Equal(t, want, size)
	}
}

func TestFacts_WhatKeepsPodsAway_IsInEventsAlone(t *testing.T) {
	t.Parallel()
	long := "a-name-of-so-many-characters-that-no-set-can-have-it"
	for text, row := range map[string]struct {
		name   string
		change func(t *testing.T, l operatorLab, tc *unstructured.Unstructured)
		want   string
	}{
		"node port of the source": {"copy", func(t *testing.T, l operatorLab, tc *unstructured.Unstructured) {
			l.put(t, kubetest.ClusterOptions{Name: name, TiKV: 1})
			l.eventually(t, "ready", func() bool { return l.ready(name) })
			ports := []any{map[string]any{"name": "mysql-client", "port": int64(4000), "nodePort": int64(30400)}}
			service := l.server.Get("services", "tidb", "src-tidb")
			require.NoError(t, unstructured.SetNestedSlice(service.Object, ports, "spec", "ports"))
			require.NoError(t, l.server.Put(service))
			require.NoError(t, unstructured.SetNestedField(tc.Object, int64(30400), "spec", "tidb", "service", "mysqlNodePort"))
		}, "provided port is already allocated"},
		"no TLS secret of its own": {"copy", func(t *testing.T, _ operatorLab, tc *unstructured.Unstructured) {
			require.NoError(t, unstructured.SetNestedField(tc.Object, true, "spec", "tlsCluster", "enabled"))
		}, `secret "copy-pd-cluster-secret" not found`},
		"long name": {long, func(*testing.T, operatorLab, *unstructured.Unstructured) {}, "must be no more than 63 bytes"},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			l := newOperatorLab(t, "us-west-2a", "us-west-2a")
			copied := name
			copied.Name = row.name
			tc := kubetest.NewTidbCluster(kubetest.ClusterOptions{Name: copied, TiKV: 1})
			row.change(t, l, tc)
			require.NoError(t, l.server.Put(tc))
			l.eventually(t, row.want, func() bool {
				return slices.ContainsFunc(l.server.List("events", "tidb"), func(e *unstructured.Unstructured) bool {
					message, _, _ := unstructured.NestedString(e.Object, "message")
					return strings.Contains(message, row.want)
				})
			})
			require.False(t, l.ready(copied))
		})
	}
}

func TestFacts_APIServerRestarted_RefusesAndThenIsAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.server.Restart()
	list := func() error {
		_, err := f.core.CoreV1().Pods("a").List(t.Context(), metav1.ListOptions{})
		return err
	}
	var seen []metav1.StatusReason
	require.Eventually(t, func() bool {
		err := list()
		if reason := apierrors.ReasonForError(err); err != nil && !slices.Contains(seen, reason) {
			seen = append(seen, reason)
		}
		return err == nil
	}, 30*time.Second, 5*time.Millisecond)
	require.Contains(t, seen, metav1.StatusReasonServiceUnavailable)
	if len(seen) > 1 { // a slow machine may come too late for the refusals
		require.Equal(t, metav1.StatusReasonForbidden, seen[0])
	}
}

func TestFacts_TerminatingNamespace_TakesNothingNew(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.NoError(t, f.server.Put(kubetest.NewNamespace("a", "Terminating")))
	_, err := f.core.CoreV1().ConfigMaps("a").Create(t.Context(), configMap("x", nil), metav1.CreateOptions{DryRun: []string{"All"}})
	require.True(t, apierrors.IsForbidden(err))
	require.ErrorContains(t, err, "because it is being terminated")
}

func TestFacts_ClaimWithoutAClass_GetsTheDefaultOne(t *testing.T) {
	t.Parallel()
	server := kubetest.New(kubetest.Config{})
	require.NoError(t, server.AddStorageClass("ebs-sc"))
	made := func(name string, class any) any {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "PersistentVolumeClaim",
			"spec": map[string]any{
				"accessModes": []any{"ReadWriteOnce"}, "volumeName": "one", "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
			},
		}}
		if class != nil {
			o.Object["spec"].(map[string]any)["storageClassName"] = class
		}
		o.SetNamespace("tidb")
		o.SetName(name)
		require.NoError(t, server.Put(o))
		return server.Get("persistentvolumeclaims", "tidb", name).Object["spec"].(map[string]any)["storageClassName"]
	}
	require.Nil(t, made("before", nil))
	class := server.Get("storageclasses", "", "ebs-sc")
	class.SetAnnotations(map[string]string{"storageclass.kubernetes.io/is-default-class": "true"})
	require.NoError(t, server.Put(class))
	require.Equal(t, "ebs-sc", made("after", nil))
	require.Empty(t, made("none", ""), "it wants none")
}
