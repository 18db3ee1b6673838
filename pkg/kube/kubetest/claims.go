package kubetest

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
)

const (
	ebsDriver        = "ebs.csi.aws.com"
	autoModeDriver   = "ebs.csi.eks.amazonaws.com" // of EKS
	bindCompleted    = "pv.kubernetes.io/bind-completed"
	boundByControl   = "pv.kubernetes.io/bound-by-controller"
	provisionedBy    = "pv.kubernetes.io/provisioned-by"
	selectedNode     = "volume.kubernetes.io/selected-node"
	zoneLabel        = "topology.kubernetes.io/zone"
	storeIDLabel     = "tidb.pingcap.com/store-id"
	clusterIDLabel   = "tidb.pingcap.com/cluster-id"
	podNameLabel     = "tidb.pingcap.com/pod-name"
	pvNamespaceLabel = "app.kubernetes.io/namespace"
	claimProtection  = "kubernetes.io/pvc-protection"
)

// boundClaims is what a pod's claims lead to.
type boundClaims struct {
	allExist bool
	reserved bool // one names a volume that it is not bound to: no other one is made for it
	volumes  []PodVolume
	pvs      []corev1.PersistentVolume
}

// podClaims follows the claims of a pod to their volumes. missing is, in the scheduler's words, what is
// not there or not bound yet.
func (o *Operator) podClaims(spec clusterSpec, obj *corev1.Pod) (found boundClaims, missing string) {
	found.allExist = true
	for _, t := range spec.volumes {
		name := t.claim(obj.Name)
		pvc, exists := typed[corev1.PersistentVolumeClaim](o.store, claims, obj.Namespace, name)
		if !exists {
			found.allExist = false
			missing = fmt.Sprintf("persistentvolumeclaim %q not found", name)
			continue
		}
		pv, exists := typed[corev1.PersistentVolume](o.store, volumes, "", pvc.Spec.VolumeName)
		if pvc.Status.Phase != corev1.ClaimBound || !exists || pv.Spec.CSI == nil {
			found.reserved = found.reserved || pvc.Spec.VolumeName != ""
			if missing == "" {
				missing = "pod has unbound immediate PersistentVolumeClaims"
			}
			continue
		}
		found.pvs = append(found.pvs, pv)
		found.volumes = append(found.volumes, PodVolume{
			Role: t.role, Driver: pv.Spec.CSI.Driver, Volume: cluster.VolumeID(pv.Spec.CSI.VolumeHandle), MountPath: t.mountPath, PV: pv.Name,
		})
	}
	return found, missing
}

// ensureClaims makes the claims of a pod as a StatefulSet does from its templates.
func (o *Operator) ensureClaims(spec clusterSpec, pod string) {
	for _, t := range spec.volumes {
		name := t.claim(pod)
		if _, exists := o.store.peek(claims, spec.name.Namespace, name); exists {
			continue
		}
		labels := spec.labels("tikv")
		labels[podNameLabel] = pod
		o.create(claims, t.newClaim(metav1.ObjectMeta{
			Name: name, Namespace: spec.name.Namespace, Labels: labels, Annotations: map[string]string{podNameLabel: pod},
		}))
	}
}

// newClaim is a claim from the template, with what Kubernetes adds to it.
func (t volumeTemplate) newClaim(m metav1.ObjectMeta) *corev1.PersistentVolumeClaim {
	mode := corev1.PersistentVolumeFilesystem
	m.Finalizers = []string{claimProtection}
	annotateProvisioner(&m, ebsDriver)
	return &corev1.PersistentVolumeClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: m,
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: &t.class, VolumeMode: &mode,
			Resources: corev1.VolumeResourceRequirements{Requests: storage(t.sizeGiB)},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
}

func storage(sizeGiB int64) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: quantity.MustParse(fmt.Sprintf("%dGi", sizeGiB))}
}

// provision makes volumes for the pod's claims that name none, in the zone of the node.
func (o *Operator) provision(ctx context.Context, spec clusterSpec, pod string, node *corev1.Node) error {
	for _, t := range spec.volumes {
		pvc, exists := typed[corev1.PersistentVolumeClaim](o.store, claims, spec.name.Namespace, t.claim(pod))
		if !exists || pvc.Spec.VolumeName != "" {
			continue
		}
		if _, exists := o.store.peek(volumes, "", volumeName(&pvc)); exists {
			continue // the binder has not come to it yet
		}
		pv, err := o.csi.provision(ctx, &pvc, o.csi.classOf(&pvc), cluster.Zone(node.Labels[zoneLabel]))
		if err != nil {
			return err
		}
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		if !spec.core { // the newer Operator labels pods and claims alone
			pv.Labels = maps.Clone(pvc.Labels)
			delete(pv.Labels, podNameLabel)
			pv.Labels[pvNamespaceLabel] = pvc.Namespace
			pv.Annotations[podNameLabel] = pvc.Annotations[podNameLabel]
		}
		o.create(volumes, pv)
		modify(o.store, claims, pvc.Namespace, pvc.Name, func(c *corev1.PersistentVolumeClaim) {
			c.Annotations[selectedNode] = node.Name
		})
	}
	return nil
}
