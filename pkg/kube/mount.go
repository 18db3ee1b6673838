package kube

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// mount follows a claim to its EBS volume; the result has no path and role yet. why is what is missing on the way. The
// volume must refer to the claim by namespace, name and uid: one in another namespace, or a released one, may have the
// same name.
func (f *podObjects) mount(claim, namespace string) (m Mount, why string, err error) {
	pvc := f.claims[claim]
	if pvc == nil {
		return m, "does not exist", nil
	}
	if pvc.Spec.VolumeName == "" || pvc.Status.Phase != corev1.ClaimBound {
		return m, fmt.Sprintf("is not bound (%s)", pvc.Status.Phase), nil
	}
	pv := f.volumes[pvc.Spec.VolumeName]
	if pv == nil {
		return m, fmt.Sprintf("is bound to volume %s, which does not exist", pvc.Spec.VolumeName), nil
	}
	ref := pv.Spec.ClaimRef
	if ref == nil || ref.Namespace != namespace || ref.Name != claim || ref.UID != pvc.UID {
		return m, fmt.Sprintf("names volume %s, which is bound to another claim", pv.Name), nil
	}
	volume := volumeOf(pv)
	if volume == "" {
		return m, fmt.Sprintf("is bound to %s, which is not an EBS volume but %s", pv.Name, foreignDriver(pv)), nil
	}
	m = Mount{PVC: claim, PV: pv.Name, Volume: volume, Class: pv.Spec.StorageClassName}
	// Items of a list have no kind, but readers of the manifest need it.
	pvc.APIVersion, pvc.Kind = "v1", "PersistentVolumeClaim"
	pv.APIVersion, pv.Kind = "v1", "PersistentVolume"
	if m.Claim, err = json.Marshal(pvc); err == nil {
		m.Object, err = json.Marshal(pv)
	}
	return m, "", failure.Wrap(err, failure.Corrupt, "encode claim", claim)
}

// volumeOf returns the EBS volume of a PV, of an EBS CSI driver or the old in-tree one ("aws://us-west-2a/vol-0abc").
func volumeOf(pv *corev1.PersistentVolume) cluster.VolumeID {
	id := ""
	switch {
	case pv.Spec.CSI != nil && isEBSDriver(pv.Spec.CSI.Driver):
		id = pv.Spec.CSI.VolumeHandle
	case pv.Spec.AWSElasticBlockStore != nil:
		id = pv.Spec.AWSElasticBlockStore.VolumeID
		id = id[strings.LastIndex(id, "/")+1:]
	}
	if !strings.HasPrefix(id, "vol-") {
		return ""
	}
	return cluster.VolumeID(id)
}
