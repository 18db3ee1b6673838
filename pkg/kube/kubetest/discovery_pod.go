package kubetest

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ensureDiscovery keeps the pod of the cluster's discovery service, which the first PD asks for its peers. Its Deployment
// makes a deleted one again as long as the TidbCluster is there.
func (o *Operator) ensureDiscovery(spec clusterSpec) {
	name := spec.name.Name + "-discovery-6c8d5f9b7d-x2x7q"
	if _, exists := o.store.peek(pods, spec.name.Namespace, name); !exists {
		pod := o.newPod(spec, "discovery", name, 0)
		delete(pod.Labels, "statefulset.kubernetes.io/pod-name")
		delete(pod.Labels, "apps.kubernetes.io/pod-index")
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "pingcap.com/v1alpha1", Kind: "TidbCluster", Name: spec.name.Name, UID: spec.uid,
			Controller: &yes, BlockOwnerDeletion: &yes,
		}}
		o.create(pods, pod)
	}
	if now, exists := typed[corev1.Pod](o.store, pods, spec.name.Namespace, name); exists && (now.Spec.NodeName != "" || !o.objects.controlled) {
		o.setPodRunning(spec.name.Namespace, name, true, "", 0)
	}
}
