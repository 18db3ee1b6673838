package kubetest

import (
	"crypto/sha256"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// attacherFinalizer is what the external-attacher has on each PV whose volume is attached: a PV that is deleted stays
// until its volume is detached.
const attacherFinalizer = "external-attacher/ebs-csi-aws-com"

// publish writes what the attach-detach controller and the external-attacher do about an attached volume.
func (o *Operator) publish(v cluster.VolumeID, pv, node string) {
	modify(o.store, volumes, "", pv, func(now *corev1.PersistentVolume) {
		if !slices.Contains(now.Finalizers, attacherFinalizer) {
			now.Finalizers = append(now.Finalizers, attacherFinalizer)
		}
	})
	o.create(volumeAttachments, &storagev1.VolumeAttachment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment"},
		ObjectMeta: metav1.ObjectMeta{Name: attachmentName(v, node), Finalizers: []string{attacherFinalizer}},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: ebsDriver, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: true},
	})
}

// unpublish undoes that after the volume was detached, and releases a PV that was deleted meanwhile.
func (o *Operator) unpublish(v cluster.VolumeID, pv, node string) {
	_, _ = o.store.remove(resourceNamed(volumeAttachments), "", attachmentName(v, node), metav1.DeleteOptions{})
	deleted := false
	modify(o.store, volumes, "", pv, func(now *corev1.PersistentVolume) {
		now.Finalizers = slices.DeleteFunc(now.Finalizers, func(f string) bool { return f == attacherFinalizer })
		deleted = now.DeletionTimestamp != nil
	})
	if deleted {
		_, _ = o.store.remove(resourceNamed(volumes), "", pv, metav1.DeleteOptions{})
	}
}

// attachmentName is Kubernetes' name of an attachment.
func attachmentName(v cluster.VolumeID, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(v)+ebsDriver+node)))
}
