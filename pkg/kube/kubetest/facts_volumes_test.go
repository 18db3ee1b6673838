package kubetest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// class adds a StorageClass of the EBS CSI driver.
func (l operatorLab) class(
	t *testing.T, binding storagev1.VolumeBindingMode, policy corev1.PersistentVolumeReclaimPolicy, zones ...string,
) {
	t.Helper()
	class := &storagev1.StorageClass{
		TypeMeta:    metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"},
		ObjectMeta:  metav1.ObjectMeta{Name: "class"},
		Provisioner: "ebs.csi.aws.com", VolumeBindingMode: &binding, ReclaimPolicy: &policy,
	}
	if len(zones) > 0 {
		class.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: "topology.ebs.csi.aws.com/zone", Values: zones},
		}}}
	}
	l.object(t, class)
}

func (l operatorLab) object(t *testing.T, o any) {
	t.Helper()
	text, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	require.NoError(t, err)
	require.NoError(t, l.server.Put(&unstructured.Unstructured{Object: text}))
}

// claim makes one of the class, by way of the API's own finalizers.
func (l operatorLab) claim(t *testing.T, name string, mode corev1.PersistentVolumeMode) {
	t.Helper()
	class := "class"
	l.object(t, &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "tidb", Finalizers: []string{"kubernetes.io/pvc-protection"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, VolumeMode: &mode, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")},
			},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	})
}

// pod makes one of no cluster that has a claim.
func (l operatorLab) pod(t *testing.T, name, claim string) *unstructured.Unstructured {
	t.Helper()
	l.object(t, &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "tidb"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	})
	return l.server.Get("pods", "tidb", name)
}

func (l operatorLab) phase(resource, namespace, name string) string {
	o := l.server.Get(resource, namespace, name)
	if o == nil {
		return ""
	}
	return text(o, "status", "phase")
}

func (l operatorLab) bound(t *testing.T, claim string) *unstructured.Unstructured {
	t.Helper()
	l.eventually(t, "bound", func() bool { return l.phase("persistentvolumeclaims", "tidb", claim) == "Bound" })
	return l.server.Get("persistentvolumes", "", text(l.server.Get("persistentvolumeclaims", "tidb", claim), "spec", "volumeName"))
}

// A class that binds at once has its volume made where it allows it, whatever pod comes; with the policy Delete it goes with
// the claim.
func TestFacts_ImmediateClass_VolumeIsMadeAtOnceAndGoesWithItsClaim(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2b")
	l.class(t, storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimDelete, "us-west-2b")
	l.claim(t, "one", corev1.PersistentVolumeBlock)
	pv := l.bound(t, "one")
	claim := l.server.Get("persistentvolumeclaims", "tidb", "one")
	assert.Equal(t, "pvc-"+string(claim.GetUID()), pv.GetName())
	assert.Equal(t, "ebs.csi.aws.com", claim.GetAnnotations()["volume.kubernetes.io/storage-provisioner"])
	assert.Equal(t, "Block", text(pv, "spec", "volumeMode"))
	assert.Empty(t, text(pv, "spec", "csi", "fsType"), "a block device has none")
	handle := text(pv, "spec", "csi", "volumeHandle")
	assert.EqualValues(t, "us-west-2b", l.disks.Zone(volumeID(handle)))
	l.eventually(t, "its driver deletes it", func() bool {
		return len(l.server.Get("persistentvolumes", "", pv.GetName()).GetFinalizers()) == 2
	})
	require.NoError(t, l.server.Remove(claim))
	l.eventually(t, "both are gone", func() bool {
		return l.server.Get("persistentvolumes", "", pv.GetName()) == nil && l.disks.Zone(volumeID(handle)) == ""
	})
}

// A class that waits has no volume before a pod. A claim that was deleted stays while there is a pod with it, and its volume
// stays if it is retained.
func TestFacts_WaitingClass_VolumeIsMadeWhereThePodIsAndRetained(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a")
	l.class(t, storagev1.VolumeBindingWaitForFirstConsumer, corev1.PersistentVolumeReclaimRetain)
	l.claim(t, "one", corev1.PersistentVolumeFilesystem)
	l.remains(t, "without a volume", func() bool { return l.phase("persistentvolumeclaims", "tidb", "one") == "Pending" })
	pod := l.pod(t, "first", "one")
	pv := l.bound(t, "one")
	assert.Equal(t, "ext4", text(pv, "spec", "csi", "fsType"))
	handle := text(pv, "spec", "csi", "volumeHandle")
	l.eventually(t, "attached", func() bool { return l.disks.Attached()[volumeID(handle)] == "i-0" })
	assert.Equal(t, "node-0", text(l.server.Get("pods", "tidb", "first"), "spec", "nodeName"))

	require.NoError(t, l.server.Remove(l.server.Get("persistentvolumeclaims", "tidb", "one")))
	require.NoError(t, unstructured.SetNestedField(pod.Object, "Succeeded", "status", "phase"))
	require.NoError(t, unstructured.SetNestedField(pod.Object, "node-0", "spec", "nodeName"))
	require.NoError(t, l.server.Put(pod))
	l.eventually(t, "detached", func() bool { return len(l.disks.Attached()) == 0 })
	require.NotNil(t, l.server.Get("persistentvolumeclaims", "tidb", "one").GetDeletionTimestamp(), "the pod is still there")
	require.NoError(t, l.server.Remove(pod))
	require.Nil(t, l.server.Get("persistentvolumeclaims", "tidb", "one"))
	l.eventually(t, "released", func() bool { return l.phase("persistentvolumes", "", pv.GetName()) == "Released" })
	require.NoError(t, l.server.Remove(pv))
	require.Nil(t, l.server.Get("persistentvolumes", "", pv.GetName()))
	l.remains(t, "retained", func() bool { return l.disks.Zone(volumeID(handle)) == "us-west-2a" })
}

// A PV that is deleted stays while its claim is bound to it. Its disk goes then, unless the PV is retained by that time.
func TestFacts_DeletedVolumeThatIsBound_StaysUntilItsClaimIsGone(t *testing.T) {
	t.Parallel()
	for name, retained := range map[string]bool{"deleted": false, "retained by then": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newOperatorLab(t, "us-west-2a")
			l.class(t, storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimDelete)
			l.claim(t, "one", corev1.PersistentVolumeBlock)
			pv := l.bound(t, "one")
			handle := volumeID(text(pv, "spec", "csi", "volumeHandle"))
			l.eventually(t, "its driver deletes it", func() bool {
				return len(l.server.Get("persistentvolumes", "", pv.GetName()).GetFinalizers()) == 2
			})
			require.NoError(t, l.server.Remove(pv))
			l.remains(t, "deleted and bound", func() bool { return l.phase("persistentvolumes", "", pv.GetName()) == "Bound" })
			if retained {
				now := l.server.Get("persistentvolumes", "", pv.GetName())
				require.NoError(t, unstructured.SetNestedField(now.Object, "Retain", "spec", "persistentVolumeReclaimPolicy"))
				require.NoError(t, l.server.Put(now))
			}
			require.NoError(t, l.server.Remove(l.server.Get("persistentvolumeclaims", "tidb", "one")))
			l.eventually(t, "gone", func() bool { return l.server.Get("persistentvolumes", "", pv.GetName()) == nil })
			assert.Equal(t, retained, l.disks.Zone(handle) != "")
		})
	}
}

// A volume that a pod of no cluster has is not detached for another pod on another node.
func TestFacts_VolumeOfAPod_IsNotAttachedForAnother(t *testing.T) {
	t.Parallel()
	l := newOperatorLab(t, "us-west-2a", "us-west-2a")
	l.class(t, storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimDelete)
	l.claim(t, "one", corev1.PersistentVolumeBlock)
	l.bound(t, "one")
	l.pod(t, "first", "one")
	l.eventually(t, "attached", func() bool { return len(l.disks.Attached()) == 1 })
	second := l.pod(t, "second", "one")
	require.NoError(t, unstructured.SetNestedField(second.Object, "node-1", "spec", "nodeName"))
	require.NoError(t, l.server.Put(second))
	l.eventually(t, "refused", func() bool {
		for _, e := range l.server.List("events", "tidb") {
			if text(e, "reason") == "FailedAttachVolume" {
				return assert.Contains(t, text(e, "message"), "Volume is already used by pod(s) first")
			}
		}
		return false
	})
}

func volumeID(handle string) cluster.VolumeID { return cluster.VolumeID(handle) }
