package kubetest

import corev1 "k8s.io/api/core/v1"

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
