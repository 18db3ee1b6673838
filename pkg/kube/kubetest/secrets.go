package kubetest

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// missingSecret is the kubelet's message that a pod's TLS secret does not exist; "" if it does or none is needed.
// Secrets are looked up by the name of the cluster itself, or with Operator 2.x by the group's: a copy needs its own.
func (o *Operator) missingSecret(spec clusterSpec, component string) string {
	if !spec.tls {
		return ""
	}
	name := fmt.Sprintf("%s-%s-cluster-secret", spec.secrets, component)
	if _, exists := o.store.peek("secrets", spec.name.Namespace, name); exists {
		return ""
	}
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : secret %q not found", component+"-tls", name)
}

// failMount leaves a component's pods ContainerCreating, with the reason in an event.
func (o *Operator) failMount(spec clusterSpec, component string, replicas int, why string) {
	for n := range replicas {
		pod, exists := typed[corev1.Pod](o.store, pods, spec.name.Namespace, spec.pod(component, n))
		if !exists && o.objects.controlled {
			continue
		}
		if !exists {
			o.create(pods, o.newPod(spec, component, spec.pod(component, n), n))
			continue
		}
		o.podEvent(&pod, "FailedMount", why)
	}
}
