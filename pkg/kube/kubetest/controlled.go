package kubetest

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// awaitScheduler waits until the scheduler has put a pod on a node, and makes the volumes for which it has chosen one, as the
// CSI provisioner does: only then does it put the pod there.
func (o *Operator) awaitScheduler(ctx context.Context, p *podState, spec clusterSpec, obj *corev1.Pod) {
	for _, t := range spec.volumes {
		pvc, _ := typed[corev1.PersistentVolumeClaim](o.store, claims, obj.Namespace, t.claim(obj.Name))
		chosen := pvc.Annotations[selectedNode]
		if chosen == "" || pvc.Spec.VolumeName != "" {
			continue
		}
		node, exists := typed[corev1.Node](o.store, nodes, "", chosen)
		if !exists {
			continue
		}
		pod := obj.Name
		p.stage, p.notBefore = claiming, o.now().Add(o.cfg.Retry)
		p.job = o.start(ctx, func(ctx context.Context) error { return o.provision(ctx, spec, pod, &node) })
		return
	}
}

// finishPods takes deleted pods away, as the kubelet does when their processes have ended: those of this process are stopped
// when their pod is gone, and before another one of its name is started.
func (o *Operator) finishPods() {
	list := o.store.peekAll(pods, "")
	for _, raw := range list {
		pod := decoded[corev1.Pod](o.store, raw)
		if pod.DeletionTimestamp != nil && pod.Labels["app.kubernetes.io/managed-by"] == "tidb-operator" {
			o.deletePod(pod.Namespace, pod.Name)
		}
	}
}

// room is what a node has for pods, whose requests are not the stand-in's matter.
func room() object { return object{"cpu": "64", "memory": "256Gi", "pods": "500"} }
