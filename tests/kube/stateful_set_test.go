package kube_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// statefulSet is what the Operator makes for the TiKV of a cluster.
func (s system) statefulSet(name string, stores int32) *appsv1.StatefulSet {
	labels := map[string]string{
		"app.kubernetes.io/instance": name, "app.kubernetes.io/component": "tikv",
		"app.kubernetes.io/managed-by": "tidb-operator", "app.kubernetes.io/name": "tidb-cluster",
	}
	storage := class
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-tikv", Labels: labels},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &stores, ServiceName: name + "-tikv-peer", PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "tikv", Image: "pingcap/tikv:v7.5.1", VolumeMounts: []corev1.VolumeMount{{Name: "tikv", MountPath: "/var/lib/tikv"}},
				}}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "tikv", Labels: labels},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &storage,
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: quantity.MustParse("10Gi")}},
				},
			}},
		},
	}
}

// The claims that a restore makes are those that the StatefulSet goes by: each pod gets the volume of its ordinal, in the
// zone of that volume, and nothing else is claimed.
func TestStatefulSet_PodsGetTheRestoredVolumesOfTheirOrdinals(t *testing.T) {
	t.Parallel()
	s := openReal(t)
	const stores = 3
	zones := []string{s.zone("a"), s.zone("b"), s.zone("c")}
	nodes := map[string]string{}
	for _, zone := range zones {
		nodes[zone] = s.node(t, zone)
	}
	require.NoError(t, s.client.CreateCluster(t.Context(), source(t), s.target("dst")))
	for i := range stores {
		v := s.volume(t, "dst", i)
		v.Zone = cluster.Zone(zones[i])
		require.NoError(t, s.client.BindVolume(t.Context(), v))
	}
	_, err := s.core.AppsV1().StatefulSets(s.namespace).Create(t.Context(), s.statefulSet("dst", stores), metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "every pod has its node", func() bool {
		pods := s.pods(t, "app.kubernetes.io/component=tikv")
		for i := range pods {
			if pods[i].Spec.NodeName == "" {
				return false
			}
		}
		return len(pods) == stores
	})
	for _, pod := range s.pods(t, "app.kubernetes.io/component=tikv") {
		s.runs(t, &pod)
	}
	found, err := s.client.TiKVPods(t.Context(), s.name("dst"))
	require.NoError(t, err)
	require.Len(t, found, stores)
	for i, pod := range found {
		assert.Equal(t, i, pod.Ordinal)
		assert.True(t, pod.Ready)
		assert.Equal(t, nodes[zones[i]], pod.Node)
		assert.Equal(t, zones[i], string(pod.Zone))
		assert.Equal(t, "i-"+zones[i], string(pod.Instance))
		require.Len(t, pod.Mounts, 1)
		assert.Equal(t, s.volume(t, "dst", i).Volume, pod.Mounts[0].Volume)
	}
	require.Len(t, s.claims(t), stores)
}

// A volume of a zone without a node keeps its pod waiting, and the reason is the scheduler's.
func TestStatefulSet_VolumeOfAZoneWithoutNode_ReportsWhyItIsPending(t *testing.T) {
	t.Parallel()
	s := openReal(t)
	s.node(t, s.zone("a"))
	require.NoError(t, s.client.CreateCluster(t.Context(), source(t), s.target("dst")))
	require.NoError(t, s.client.StartTiKV(t.Context(), s.name("dst")))
	v := s.volume(t, "dst", 0)
	v.Zone = cluster.Zone(s.zone("b"))
	require.NoError(t, s.client.BindVolume(t.Context(), v))
	s.bound(t, 1) // or the scheduler's first reason is another one
	_, err := s.core.AppsV1().StatefulSets(s.namespace).Create(t.Context(), s.statefulSet("dst", 1), metav1.CreateOptions{})
	require.NoError(t, err)
	var reason string
	eventually(t, "the reason is there", func() bool {
		pods, err := s.client.TiKVPods(t.Context(), s.name("dst"))
		if err == nil && len(pods) == 1 {
			reason = pods[0].Reason
		}
		return strings.HasPrefix(reason, "Unschedulable: ")
	})
	require.Contains(t, reason, "node affinity")
}
