package kubetest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// setReclaimPolicy gives spec.pvReclaimPolicy to every volume that is bound to a claim of the cluster, regardless of who made
// it, as a controller of the real Operator does within seconds.
func (o *Operator) setReclaimPolicy(spec clusterSpec) {
	list := o.store.peekAll(claims, spec.name.Namespace)
	for _, raw := range list {
		pvc := decoded[corev1.PersistentVolumeClaim](o.store, raw)
		if pvc.Labels[instanceLabel] != spec.instance || pvc.Status.Phase != corev1.ClaimBound {
			continue
		}
		modify(o.store, volumes, "", pvc.Spec.VolumeName, func(pv *corev1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(spec.reclaim)
		})
	}
}

// reclaimVolumes deletes released volumes whose policy is Delete, with their EBS volumes, as the CSI provisioner does.
func (o *Operator) reclaimVolumes(ctx context.Context) {
	r := resourceNamed(volumes)
	list := o.store.peekAll(volumes, "")
	for _, raw := range list {
		pv := decoded[corev1.PersistentVolume](o.store, raw)
		if pv.Status.Phase != corev1.VolumeReleased || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || pv.Spec.CSI == nil {
			continue
		}
		if o.disks.Delete(ctx, cluster.VolumeID(pv.Spec.CSI.VolumeHandle)) != nil {
			continue // still attached: tried again
		}
		_, _ = o.store.remove(r, "", pv.Name, metav1.DeleteOptions{})
	}
}
