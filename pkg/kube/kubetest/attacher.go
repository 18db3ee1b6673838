package kubetest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// attacherFinalizer is what the external-attacher of a driver has on each PV whose volume is attached: a PV that is deleted
// stays until its volume is detached.
func attacherFinalizer(driver string) string {
	return attacherPrefix + strings.ReplaceAll(driver, ".", "-")
}

const attacherPrefix = "external-attacher/"

// publish writes what the attach-detach controller and the external-attacher do about an attached volume.
func (o *Operator) publish(v cluster.VolumeID, at attachment) {
	finalizer := attacherFinalizer(at.driver)
	modify(o.store, volumes, "", at.pv, func(now *corev1.PersistentVolume) {
		if !slices.Contains(now.Finalizers, finalizer) {
			now.Finalizers = append(now.Finalizers, finalizer)
		}
	})
	o.create(volumeAttachments, &storagev1.VolumeAttachment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "VolumeAttachment"},
		ObjectMeta: metav1.ObjectMeta{Name: attachmentName(v, at), Finalizers: []string{finalizer}},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: at.driver, NodeName: at.node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &at.pv},
		},
		Status: storagev1.VolumeAttachmentStatus{Attached: true},
	})
}

// unpublish undoes that after the volume was detached.
func (o *Operator) unpublish(v cluster.VolumeID, at attachment) {
	_, _ = o.store.remove(resourceNamed(volumeAttachments), "", attachmentName(v, at), metav1.DeleteOptions{})
	modify(o.store, volumes, "", at.pv, func(now *corev1.PersistentVolume) {
		now.Finalizers = slices.DeleteFunc(now.Finalizers, func(f string) bool { return f == attacherFinalizer(at.driver) })
	})
}

// attachmentName is Kubernetes' name of an attachment.
func attachmentName(v cluster.VolumeID, at attachment) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(v)+at.driver+at.node)))
}
