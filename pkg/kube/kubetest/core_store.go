package kubetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Annotations of a claim whose volume Operator 2.x modified: what it was to become, and what it is.
const (
	volumeSpec   = "spec.tidb.pingcap.com/"
	volumeStatus = "status.tidb.pingcap.com/"
)

// reconcileClaim makes a claim of a store, unless there is one of its name. Of a bound one the volume is modified if it is
// not as in the template: Operator 2.x calls EC2 itself.
func (o *Operator) reconcileClaim(ctx context.Context, cl coreCluster, in instance, t volumeTemplate) {
	pvc, exists := typed[corev1.PersistentVolumeClaim](o.store, claims, cl.name.Namespace, t.claim(in.pod))
	if !exists {
		m := in.object(cl, t.claim(in.pod))
		m.Labels[volumeLabel] = t.name
		o.create(claims, t.newClaim(m))
		return
	}
	pv, bound := typed[corev1.PersistentVolume](o.store, volumes, "", pvc.Spec.VolumeName)
	if pvc.Status.Phase != corev1.ClaimBound || !bound || pv.Spec.CSI == nil {
		return
	}
	class := pvc.Annotations[volumeStatus+"storage-class"]
	if class == "" && pvc.Spec.StorageClassName != nil {
		class = *pvc.Spec.StorageClassName
	}
	has, wants := pv.Spec.Capacity[corev1.ResourceStorage], storage(t.sizeGiB)[corev1.ResourceStorage]
	switch provisioner := o.provisioner(class); {
	case wants.Cmp(has) == 0 && class == t.class:
		return
	case wants.Cmp(has) < 0:
		o.log(fmt.Sprintf("volume modification is not allowed: %s: can't shrunk size from %s to %s", pvc.Name, &has, &wants))
		return
	case provisioner != ebsDriver:
		o.log(fmt.Sprintf("volume modification is not allowed: %s: no cloud volume modifier for storage class provisioner %s", pvc.Name, provisioner))
		return
	}
	if err := o.disks.Modify(ctx, cluster.VolumeID(pv.Spec.CSI.VolumeHandle), t.sizeGiB, t.class); err != nil {
		o.log(fmt.Sprintf("cannot modify the volume of claim %s: %s", pvc.Name, err))
		return
	}
	modify(o.store, volumes, "", pv.Name, func(v *corev1.PersistentVolume) { v.Spec.Capacity = storage(t.sizeGiB) })
	modify(o.store, claims, pvc.Namespace, pvc.Name, func(c *corev1.PersistentVolumeClaim) {
		for _, begin := range []string{volumeSpec, volumeStatus} {
			annotate(c, begin+"revision", "1")
			annotate(c, begin+"storage-class", t.class)
			annotate(c, begin+"storage-size", wants.String())
		}
		c.Spec.Resources.Requests, c.Status.Capacity = storage(t.sizeGiB), storage(t.sizeGiB)
	})
}

// provisioner is that of a StorageClass; one that is not there is the CSI driver's.
func (o *Operator) provisioner(class string) string {
	obj, exists := o.store.get(storageClasses, "", class)
	if !exists {
		return ebsDriver
	}
	return nestedText(obj, "provisioner")
}

// labelOwn writes the ids of a store and of its cluster on its pod and claims, as the older Operator does.
func (o *Operator) labelOwn(cl coreCluster, in instance, spec clusterSpec) {
	id := nestedText(in.obj, "status", "id")
	if id == "" || cl.id == "" {
		return
	}
	modify(o.store, pods, cl.name.Namespace, in.pod, func(p *corev1.Pod) {
		label(p, storeIDLabel, id)
		label(p, clusterIDLabel, cl.id)
	})
	for _, t := range spec.volumes {
		modify(o.store, claims, cl.name.Namespace, t.claim(in.pod), func(c *corev1.PersistentVolumeClaim) {
			label(c, storeIDLabel, id)
			label(c, clusterIDLabel, cl.id)
		})
	}
}

// writeStoreStatus writes what PD and the pod show of a store. One with many regions that leads none of them is not ready.
func (o *Operator) writeStoreStatus(c *clusterState, cl coreCluster, in instance) {
	status := object{}
	ready, runs := false, false
	if p := c.pods[in.pod]; p != nil {
		runs = p.stage == running
		if p.storeID != 0 {
			leaders, regions := o.runtime.Regions(cl.name, in.pod)
			ready = runs && p.ready && (leaders > 0 || regions < manyRegions)
			status["id"], status["state"] = strconv.FormatUint(uint64(p.storeID), 10), "Serving"
		}
	}
	offline, _, _ := unstructured.NestedBool(in.obj, "spec", "offline")
	reason := "Active"
	if offline {
		reason = "Processing"
		status["state"] = "Removing"
	}
	o.writeInstanceStatus(cl, in, status, condition{"Synced", true, "Synced"}, condition{"Running", runs, "Running"},
		condition{"Ready", ready, "Ready"}, condition{"Offlined", false, reason})
}

// writeInstanceStatus adds to an instance's status, which keeps what is known no more.
func (o *Operator) writeInstanceStatus(cl coreCluster, in instance, add object, now ...condition) {
	o.change(in.instances, in.obj, func(m *unstructured.Unstructured) {
		status := nested(m.Object, "status")
		for field, value := range add {
			status[field] = value
		}
		status["observedGeneration"], status["observedClusterGeneration"] = m.GetGeneration(), meta(cl.obj).GetGeneration()
		status["updateRevision"] = m.GetLabels()[revisionLabel]
		if slices.ContainsFunc(now, func(c condition) bool { return c.kind == "Ready" && c.is }) {
			status["currentRevision"] = status["updateRevision"]
		}
		status["conditions"] = o.conditions(status, m.GetGeneration(), now...)
		m.Object["status"] = status
	})
}
