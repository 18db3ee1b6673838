package kubetest

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/cluster"
)

const (
	storageClasses = "storageclasses"
	pvProtection   = "kubernetes.io/pv-protection"
	// provisionerFinalizer is what the external-provisioner has on each PV whose volume is to be deleted with its claim: a
	// PV that is deleted before stays until its volume is deleted.
	provisionerFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"
)

// provisioner is the external-provisioner of CSI drivers, by their names.
type provisioner struct {
	store     state
	drivers   map[string]Disks
	namespace string // of the claims that it looks at; "" for all
	warn      func(about object, reason, message string)
}

// RunDriver is the external-provisioner of a CSI driver for the claims of a namespace, "" for all, until ctx ends. An
// Operator has those of its own drivers.
func (s *Objects) RunDriver(ctx context.Context, name string, disks Disks, namespace string) {
	p := &provisioner{
		store: s.state, drivers: map[string]Disks{name: disks}, namespace: namespace, warn: func(object, string, string) {},
	}
	for ctx.Err() == nil {
		changed := s.Changed()
		p.step(ctx)
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// step makes the volumes of claims, and deletes those whose claims are gone if that is their policy.
func (p *provisioner) step(ctx context.Context) {
	for _, raw := range p.store.peekAll(claims, p.namespace) {
		pvc := decoded[corev1.PersistentVolumeClaim](p.store, raw)
		class := p.classOf(&pvc)
		zone, due := p.zone(&pvc, class)
		if !due {
			continue
		}
		pv, err := p.provision(ctx, &pvc, class, zone)
		if err != nil {
			p.warn(raw, "ProvisioningFailed", err.Error())
			continue
		}
		r := resourceNamed(volumes)
		if _, err := p.store.create(r, untyped(pv), false); err != nil {
			p.warn(raw, "ProvisioningFailed", err.Error())
			_ = p.drivers[class.Provisioner].Delete(ctx, cluster.VolumeID(pv.Spec.CSI.VolumeHandle))
		}
	}
	p.reclaim(ctx)
}

// zone is where the volume of a claim is to be made, if it is time: for a class that waits for the first consumer, where the
// scheduler wants to put that.
func (p *provisioner) zone(pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (zone cluster.Zone, due bool) {
	if pvc.Spec.VolumeName != "" || pvc.DeletionTimestamp != nil || ofOperator(pvc) || p.drivers[class.Provisioner] == nil {
		return "", false
	}
	if _, exists := p.store.peek(volumes, "", volumeName(pvc)); exists {
		return "", false // the binder has not come to it yet
	}
	modify(p.store, claims, pvc.Namespace, pvc.Name, func(c *corev1.PersistentVolumeClaim) {
		annotateProvisioner(c, class.Provisioner)
	})
	if class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer {
		node, exists := typed[corev1.Node](p.store, nodes, "", pvc.Annotations[selectedNode])
		return cluster.Zone(node.Labels[zoneLabel]), exists
	}
	return anyZone(pvc, p.zones(class))
}

// zones are those in which a class may have volumes: where it allows them, or where there are nodes.
func (p *provisioner) zones(class *storagev1.StorageClass) (all []string) {
	for _, term := range class.AllowedTopologies {
		for _, e := range term.MatchLabelExpressions {
			all = append(all, e.Values...)
		}
	}
	if len(all) == 0 {
		for _, raw := range p.store.peekAll(nodes, "") {
			all = append(all, meta(raw).GetLabels()[zoneLabel])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// anyZone spreads claims over the zones by their names, as the external-provisioner does.
func anyZone(pvc *corev1.PersistentVolumeClaim, zones []string) (cluster.Zone, bool) {
	if len(zones) == 0 {
		return "", false
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(pvc.Name))
	return cluster.Zone(zones[h.Sum32()%uint32(len(zones))]), true //nolint:gosec // a few
}

// classOf is the class of a claim. One that does not exist is taken for one of the EBS CSI driver.
func (p *provisioner) classOf(pvc *corev1.PersistentVolumeClaim) *storagev1.StorageClass {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	if pvc.Spec.StorageClassName == nil {
		return &storagev1.StorageClass{}
	}
	class, exists := typed[storagev1.StorageClass](p.store, storageClasses, "", *pvc.Spec.StorageClassName)
	if !exists {
		class.Name, class.Provisioner, class.VolumeBindingMode = *pvc.Spec.StorageClassName, ebsDriver, &wait
	}
	return &class
}

// ofOperator reports whether an object is TiDB Operator's, whose claims get their volumes with their pods.
func ofOperator(o metav1.Object) bool {
	return o.GetLabels()[managedByLabel] == managedBy || o.GetLabels()["app.kubernetes.io/managed-by"] == managedBy
}

// volumeName is that of the PV which is made for a claim.
func volumeName(pvc *corev1.PersistentVolumeClaim) string { return "pvc-" + string(pvc.UID) }

func annotateProvisioner(claim metav1.Object, driver string) {
	annotate(claim, "volume.beta.kubernetes.io/storage-provisioner", driver)
	annotate(claim, "volume.kubernetes.io/storage-provisioner", driver)
}

// provision makes the volume of a claim, and returns its PV.
func (p *provisioner) provision(
	ctx context.Context, pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, zone cluster.Zone,
) (*corev1.PersistentVolume, error) {
	disks := p.drivers[class.Provisioner]
	if disks == nil {
		return nil, fmt.Errorf("no driver %q is installed", class.Provisioner)
	}
	size := pvc.Spec.Resources.Requests[corev1.ResourceStorage]
	id, err := disks.Provision(ctx, NewVolume{
		PV: volumeName(pvc), Claim: types.NamespacedName{Namespace: pvc.Namespace, Name: pvc.Name},
		Zone: zone, SizeGiB: (size.Value() + 1<<30 - 1) >> 30, Class: class.Name,
	})
	if err != nil {
		return nil, fmt.Errorf("failed to provision volume with StorageClass %q: %w", class.Name, err)
	}
	policy := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	return newVolumeOf(pvc, class, id, zone, policy), nil
}

func newVolumeOf(
	pvc *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, id cluster.VolumeID, zone cluster.Zone,
	policy corev1.PersistentVolumeReclaimPolicy,
) *corev1.PersistentVolume {
	source := &corev1.CSIPersistentVolumeSource{
		Driver: class.Provisioner, VolumeHandle: string(id),
		VolumeAttributes: map[string]string{"storage.kubernetes.io/csiProvisionerIdentity": "testbed"},
	}
	if modeOf(pvc.Spec.VolumeMode) == corev1.PersistentVolumeFilesystem {
		source.FSType = "ext4"
	}
	return &corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Name: volumeName(pvc), Finalizers: []string{pvProtection},
			Annotations: map[string]string{
				provisionedBy: class.Provisioner,
				"volume.kubernetes.io/provisioner-deletion-secret-name":      "",
				"volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
			},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               pvc.Spec.Resources.Requests,
			AccessModes:            pvc.Spec.AccessModes,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: source},
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: pvc.Namespace, Name: pvc.Name,
				UID: pvc.UID, ResourceVersion: pvc.ResourceVersion,
			},
			PersistentVolumeReclaimPolicy: policy,
			StorageClassName:              class.Name, VolumeMode: pvc.Spec.VolumeMode,
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: driverZone(class.Provisioner), Operator: corev1.NodeSelectorOpIn, Values: []string{string(zone)},
					}},
				}},
			}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumePending},
	}
}

// driverZone is the label of nodes that has their zone for a driver.
func driverZone(driver string) string {
	if driver == autoModeDriver {
		return zoneLabel
	}
	return "topology." + driver + "/zone"
}

// reclaim deletes released volumes whose policy is Delete, whoever made their PVs, and then these. As the real one with
// HonorPVReclaimPolicy, it keeps a PV that is deleted before its claim until then.
func (p *provisioner) reclaim(ctx context.Context) {
	r := resourceNamed(volumes)
	for _, raw := range p.store.peekAll(volumes, "") {
		pv := decoded[corev1.PersistentVolume](p.store, raw)
		if pv.Spec.CSI == nil || p.drivers[pv.Spec.CSI.Driver] == nil || p.elsewhere(&pv) {
			continue
		}
		deletes := pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
		marked := slices.Contains(pv.Finalizers, provisionerFinalizer)
		switch {
		case deletes && !marked && pv.DeletionTimestamp == nil && pv.Status.Phase == corev1.VolumeBound:
			p.finalize(&pv, true)
		case !deletes && marked:
			p.finalize(&pv, false)
		case !deletes || pv.Status.Phase != corev1.VolumeReleased || pv.DeletionTimestamp != nil && !marked:
		default:
			if err := p.drivers[pv.Spec.CSI.Driver].Delete(ctx, cluster.VolumeID(pv.Spec.CSI.VolumeHandle)); err != nil {
				p.warn(raw, "VolumeFailedDelete", err.Error()) // still attached: tried again
				continue
			}
			_, _ = p.store.remove(r, "", pv.Name, metav1.DeleteOptions{})
			p.finalize(&pv, false)
		}
	}
}

// elsewhere reports whether a PV is of a claim that this one does not look at.
func (p *provisioner) elsewhere(pv *corev1.PersistentVolume) bool {
	return p.namespace != "" && (pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.Namespace != p.namespace)
}

// finalize puts the provisioner's finalizer on a PV, or removes it.
func (p *provisioner) finalize(pv *corev1.PersistentVolume, on bool) {
	modify(p.store, volumes, "", pv.Name, func(now *corev1.PersistentVolume) {
		if now.UID != pv.UID {
			return
		}
		now.Finalizers = slices.DeleteFunc(now.Finalizers, func(f string) bool { return f == provisionerFinalizer })
		if on {
			now.Finalizers = append(now.Finalizers, provisionerFinalizer)
		}
	})
}
