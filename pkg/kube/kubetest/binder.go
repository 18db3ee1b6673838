package kubetest

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// bindClaims is the binder of claims and volumes: a claim and a volume that name each other, and fit, are
// bound; a claim whose volume went is Lost; a volume whose claim went is Released and never bound again. A claim that
// names a volume which is not Available yet waits for the binder's next sync, or until someone changes it.
func (o *Operator) bindClaims() {
	list := o.store.peekAll(claims, "")
	o.postpone(list)
	byClaim := o.volumesByClaim()
	for _, raw := range list {
		pvc := decoded[corev1.PersistentVolumeClaim](o.store, raw)
		if pvc.Status.Phase == corev1.ClaimBound {
			if _, exists := o.store.peek(volumes, "", pvc.Spec.VolumeName); !exists {
				modify(o.store, claims, pvc.Namespace, pvc.Name, func(c *corev1.PersistentVolumeClaim) {
					c.Status.Phase = corev1.ClaimLost
				})
			}
			continue
		}
		if o.early(o.unbound[pvc.UID].until) {
			continue
		}
		name := pvc.Spec.VolumeName
		if name == "" {
			name = byClaim[objectKey{pvc.Namespace, pvc.Name}]
		}
		pv, exists := typed[corev1.PersistentVolume](o.store, volumes, "", name)
		if !exists {
			continue
		}
		if why := misfit(&pvc, &pv); why != "" {
			o.warn(raw, "VolumeMismatch", fmt.Sprintf("Cannot bind to requested volume %q: %s", name, why))
			continue
		}
		o.bind(&pvc, &pv)
	}
}

// postpone notes when the binder comes back to claims that name a volume which is not Available yet.
func (o *Operator) postpone(list []object) {
	for _, raw := range list {
		pvc := decoded[corev1.PersistentVolumeClaim](o.store, raw)
		if pvc.Status.Phase == corev1.ClaimBound || pvc.Spec.VolumeName == "" {
			continue
		}
		if last := o.unbound[pvc.UID]; last.version == pvc.ResourceVersion && o.early(last.until) {
			continue
		}
		next := postponed{version: pvc.ResourceVersion}
		pv, exists := typed[corev1.PersistentVolume](o.store, volumes, "", pvc.Spec.VolumeName)
		if !exists || pv.Status.Phase != corev1.VolumeAvailable && pv.Status.Phase != corev1.VolumeBound {
			next.until = o.now().Add(o.cfg.BindSync)
		}
		o.unbound[pvc.UID] = next
	}
}

// postponed is until when a claim is left alone, unless it has another version.
type postponed struct {
	until   time.Time
	version string
}

// volumesByClaim maps claims to the volumes that were reserved for them, and marks the released volumes.
func (o *Operator) volumesByClaim() map[objectKey]string {
	found := map[objectKey]string{}
	list := o.store.peekAll(volumes, "")
	for _, raw := range list {
		pv := decoded[corev1.PersistentVolume](o.store, raw)
		ref := pv.Spec.ClaimRef
		phase := corev1.VolumeAvailable
		if ref != nil {
			pvc, exists := typed[corev1.PersistentVolumeClaim](o.store, claims, ref.Namespace, ref.Name)
			switch {
			case ref.UID == "" || (exists && pvc.UID == ref.UID && pvc.Status.Phase != corev1.ClaimBound):
				found[objectKey{ref.Namespace, ref.Name}] = pv.Name
			case exists && pvc.UID == ref.UID:
				phase = corev1.VolumeBound
			default:
				phase = corev1.VolumeReleased
			}
		}
		if pv.Status.Phase != phase {
			modify(o.store, volumes, "", pv.Name, func(v *corev1.PersistentVolume) { v.Status.Phase = phase })
		}
	}
	return found
}

// misfit returns why a claim cannot be bound to a volume, in the words of the real binder.
func misfit(pvc *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) string {
	ref := pv.Spec.ClaimRef
	want := pvc.Spec.Resources.Requests[corev1.ResourceStorage]
	have := pv.Spec.Capacity[corev1.ResourceStorage]
	class := ""
	if pvc.Spec.StorageClassName != nil {
		class = *pvc.Spec.StorageClassName
	}
	switch {
	case ref != nil && (ref.Namespace != pvc.Namespace || ref.Name != pvc.Name || (ref.UID != "" && ref.UID != pvc.UID)):
		return "volume already bound to a different claim"
	case have.Cmp(want) < 0:
		return "requested PV is too small"
	case class != pv.Spec.StorageClassName:
		return "storageClassName does not match"
	case modeOf(pvc.Spec.VolumeMode) != modeOf(pv.Spec.VolumeMode):
		return "incompatible volumeMode"
	}
	return ""
}

func modeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *mode
}

func (o *Operator) bind(pvc *corev1.PersistentVolumeClaim, pv *corev1.PersistentVolume) {
	modify(o.store, volumes, "", pv.Name, func(v *corev1.PersistentVolume) {
		if v.Spec.ClaimRef == nil {
			v.Spec.ClaimRef = &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: pvc.Namespace, Name: pvc.Name,
			}
			annotate(v, boundByControl, "yes")
		}
		v.Spec.ClaimRef.UID = pvc.UID
		v.Spec.ClaimRef.ResourceVersion = pvc.ResourceVersion
		v.Status.Phase = corev1.VolumeBound
	})
	modify(o.store, claims, pvc.Namespace, pvc.Name, func(c *corev1.PersistentVolumeClaim) {
		if c.Spec.VolumeName == "" {
			c.Spec.VolumeName = pv.Name
			annotate(c, boundByControl, "yes")
		}
		annotate(c, bindCompleted, "yes")
		c.Status.Phase = corev1.ClaimBound
		c.Status.AccessModes = pv.Spec.AccessModes
		c.Status.Capacity = pv.Spec.Capacity
	})
}
