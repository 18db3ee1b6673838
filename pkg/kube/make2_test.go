package kube_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubetest"
	"github.com/tisnap/tisnap/pkg/kube/operator2"
)

func untyped(t *testing.T, o any) *unstructured.Unstructured {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: content}
}

// owned has the controlling owner that an object is created with.
func owned(o, owner *unstructured.Unstructured) *unstructured.Unstructured {
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner, owner.GroupVersionKind())})
	return o
}

// putMade makes the objects of a target, in the order of a restore, and lets the Operator act.
func (l *lab) putMade(t *testing.T, made *operator2.Made) (claims []*unstructured.Unstructured) {
	t.Helper()
	namespace := made.Cluster.GetNamespace()
	require.NoError(t, l.server.Put(made.Cluster))
	for _, o := range made.Early {
		require.NoError(t, l.server.Put(o))
	}
	for _, s := range made.Stores {
		require.NoError(t, l.server.Put(owned(s.TiKV, l.server.Get("tikvgroups", namespace, s.Group))))
		for _, claim := range s.Claims {
			o := owned(untyped(t, claim), l.server.Get("tikvs", namespace, s.TiKV.GetName()))
			require.NoError(t, unstructured.SetNestedField(o.Object, "Pending", "status", "phase"))
			require.NoError(t, l.server.Put(o))
			claims = append(claims, o)
		}
	}
	require.NoError(t, l.server.Put(withField(l.server.Get("clusters", namespace, made.Cluster.GetName()), false, "spec", "paused")))
	return claims
}

// The Operator adopts what is made as it is: it adds no store and modifies no volume, and a store waits for its volumes.
func TestMakeOfOperator2_OperatorAdoptsIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	read, pods := l.startCore(t, kubetest.ClusterOptions{Name: source("src"), TiKV: 3, TiKVGroups: 2, RaftLogVolume: true})
	to := operator2.Target{Name: source("dst"), Run: run}
	zoneOf := map[string]cluster.Zone{} // of persistent volumes
	for _, p := range pods {
		s := operator2.TargetStore{Pod: p.Name, Zone: p.Zone, Volumes: map[string]operator2.TargetVolume{}}
		for _, m := range p.Mounts {
			s.Volumes[strings.TrimSuffix(m.PVC, "-"+p.Name)] = operator2.TargetVolume{PV: "pv-" + m.PVC, SizeGiB: 20}
			zoneOf["pv-"+m.PVC] = p.Zone
		}
		to.Stores = append(to.Stores, s)
	}
	made, err := operator2.Make(read.Objects, to)
	require.NoError(t, err)
	claims := l.putMade(t, made)
	require.Len(t, claims, 6)

	stores := func() (all []*unstructured.Unstructured) {
		for _, o := range l.server.List("pods", "tidb") {
			if of := o.GetLabels(); of["pingcap.com/cluster"] == "dst" && of["pingcap.com/component"] == "tikv" {
				all = append(all, o)
			}
		}
		return all
	}
	require.Eventually(t, func() bool { return len(stores()) == 3 }, patience, 5*time.Millisecond)
	for _, pod := range stores() {
		require.Empty(t, pod.Object["spec"].(map[string]any)["nodeName"], "its volumes are not there")
	}
	for i, claim := range claims {
		name, _, _ := unstructured.NestedString(claim.Object, "spec", "volumeName")
		id := cluster.VolumeID("vol-restored-" + string(rune('a'+i)))
		l.disks.Add(id, zoneOf[name], true)
		require.NoError(t, l.server.Put(restoredPV(t, name, id, zoneOf[name], claim)))
		now := l.server.Get("persistentvolumeclaims", "tidb", claim.GetName())
		now.SetAnnotations(map[string]string{"touched": "yes"})
		require.NoError(t, l.server.Put(now))
	}
	require.Eventually(t, func() bool {
		now, err := l.client.Cluster(t.Context(), source("dst"))
		if err != nil || now.Unsteady != nil || len(now.Stores) != 3 {
			return false
		}
		of, err := l.client.TiKVPods(t.Context(), source("dst"))
		return err == nil && len(of) == 3 && allReady(of)
	}, patience, 5*time.Millisecond)
	restored, err := l.client.TiKVPods(t.Context(), source("dst"))
	require.NoError(t, err)
	for _, p := range restored {
		for _, m := range p.Mounts {
			require.True(t, strings.HasPrefix(string(m.Volume), "vol-restored-"), "%s has %s", p.Name, m.Volume)
		}
	}
	count := 0
	for _, o := range l.server.List("tikvs", "tidb") {
		if o.GetLabels()["pingcap.com/cluster"] == "dst" {
			count++
		}
	}
	require.Equal(t, 3, count)
	require.Empty(t, l.disks.Modified())
}

// restoredPV is a volume that waits for a claim.
func restoredPV(t *testing.T, name string, id cluster.VolumeID, zone cluster.Zone, claim *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	class, _, _ := unstructured.NestedString(claim.Object, "spec", "storageClassName")
	return untyped(t, &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain, StorageClassName: class,
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: "tidb", Name: claim.GetName()},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: string(id)},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: "topology.ebs.csi.aws.com/zone", Operator: corev1.NodeSelectorOpIn, Values: []string{string(zone)},
				}},
			}}}},
		},
	})
}
