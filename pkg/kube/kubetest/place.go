package kubetest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// placePods is the scheduler and the attach-detach controller of pods that have claims and are of no TiDB cluster, such as
// those of Jobs: it puts them on nodes, attaches their volumes, and detaches those of pods that have ended.
func (o *Operator) placePods(ctx context.Context) {
	if o.objects.controlled {
		return // there are others
	}
	live := map[objectKey]bool{}
	for _, raw := range o.store.peekAll(pods, "") {
		pod := decoded[corev1.Pod](o.store, raw)
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if ended || ofOperator(&pod) || len(claimsOf(&pod)) == 0 {
			continue
		}
		switch {
		case pod.Spec.NodeName != "":
			live[objectKey{pod.Namespace, pod.Name}] = true
			o.attachFor(ctx, &pod)
		case pod.DeletionTimestamp == nil:
			o.place(&pod)
		}
	}
	o.detachFrom(ctx, live)
}

// claimsOf are the names of a pod's claims.
func claimsOf(pod *corev1.Pod) (names []string) {
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			names = append(names, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// place puts a pod on a node that all its volumes can be attached to. For claims whose class waits for that, the node is
// noted first, and the pod waits until their volumes are made.
func (o *Operator) place(pod *corev1.Pod) {
	var bound boundClaims
	var waiting []string
	node := ""
	for _, name := range claimsOf(pod) {
		pvc, exists := typed[corev1.PersistentVolumeClaim](o.store, claims, pod.Namespace, name)
		if !exists || pvc.DeletionTimestamp != nil {
			o.unplaced(pod, fmt.Sprintf("persistentvolumeclaim %q not found", name))
			return
		}
		if pv, exists := typed[corev1.PersistentVolume](o.store, volumes, "", pvc.Spec.VolumeName); exists &&
			pvc.Status.Phase == corev1.ClaimBound {
			bound.pvs = append(bound.pvs, pv)
			continue
		}
		mode := o.csi.classOf(&pvc).VolumeBindingMode
		if pvc.Spec.VolumeName != "" || mode == nil || *mode != storagev1.VolumeBindingWaitForFirstConsumer {
			o.unplaced(pod, "pod has unbound immediate PersistentVolumeClaims")
			return
		}
		waiting, node = append(waiting, name), pvc.Annotations[selectedNode]
	}
	if node == "" {
		why := ""
		if node, why = o.pickNode(clusterSpec{}, pod, bound); node == "" {
			o.unplaced(pod, why)
			return
		}
	}
	for _, name := range waiting {
		modify(o.store, claims, pod.Namespace, name, func(c *corev1.PersistentVolumeClaim) { annotate(c, selectedNode, node) })
	}
	if len(waiting) > 0 {
		return
	}
	modify(o.store, pods, pod.Namespace, pod.Name, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		o.setCondition(p, corev1.PodScheduled, corev1.ConditionTrue, "", "")
	})
}

// unplaced records why a pod waits, once.
func (o *Operator) unplaced(pod *corev1.Pod, why string) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Message == why {
			return
		}
	}
	o.unschedulable(&podState{}, pod, why)
}

// attachFor attaches the volumes of a pod.
func (o *Operator) attachFor(ctx context.Context, pod *corev1.Pod) {
	node, _ := typed[corev1.Node](o.store, nodes, "", pod.Spec.NodeName)
	for _, name := range claimsOf(pod) {
		pvc, _ := typed[corev1.PersistentVolumeClaim](o.store, claims, pod.Namespace, name)
		pv, exists := typed[corev1.PersistentVolume](o.store, volumes, "", pvc.Spec.VolumeName)
		if !exists || pv.Spec.CSI == nil {
			continue
		}
		err := o.attach(ctx, cluster.VolumeID(pv.Spec.CSI.VolumeHandle), attachment{
			instance: instanceOf(&node), namespace: pod.Namespace, pod: pod.Name, node: node.Name, pv: pv.Name,
			driver: pv.Spec.CSI.Driver,
		})
		if err != nil {
			o.podEvent(pod, "FailedAttachVolume", err.Error())
		}
	}
}

// detachFrom detaches the volumes of pods of no cluster that are not among the live ones. What fails is tried again.
func (o *Operator) detachFrom(ctx context.Context, live map[objectKey]bool) {
	o.volumeMu.Lock()
	ended := map[cluster.VolumeID]attachment{}
	for v, at := range o.attached {
		if at.cluster == (cluster.Name{}) && !live[objectKey{at.namespace, at.pod}] {
			ended[v] = at
		}
	}
	o.volumeMu.Unlock()
	for v, at := range ended {
		if o.csi.drivers[at.driver].Detach(ctx, v) == nil {
			o.forgetAttachment(v)
		}
	}
}
