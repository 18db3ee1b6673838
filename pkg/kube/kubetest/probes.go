package kubetest

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// addressOf is the address of the pods of a namespace: that is all that policies between namespaces are about.
const addressOf = "pods-of-"

// RunProbes plays the kubelet of pods without a controller that run nc, until ctx ends: those that listen become ready,
// the others end with nc's exit code. A connection to another namespace fails if either has network policies, unless
// the network ignores them.
func (s *Objects) RunProbes(ctx context.Context, ignored func() bool) {
	for {
		changed := s.state.next()
		for _, o := range s.state.peekAll(pods, "") {
			s.runProbe(o, ignored())
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

func (s *Objects) runProbe(o object, ignored bool) {
	var pod corev1.Pod
	if runtime.DefaultUnstructuredConverter.FromUnstructured(clone(o), &pod) != nil ||
		metav1.GetControllerOf(&pod) != nil || pod.Status.Phase != corev1.PodPending && pod.Status.Phase != "" ||
		len(pod.Spec.Containers) != 1 {
		return
	}
	command := pod.Spec.Containers[0].Command
	switch {
	case len(command) < 4 || command[0] != "nc":
		return
	case slices.Contains(command, "-lk"):
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: addressOf + pod.Namespace,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		}
	default:
		to, code := strings.TrimPrefix(command[3], addressOf), int32(0)
		closed := len(s.state.peekAll("networkpolicies", pod.Namespace))+len(s.state.peekAll("networkpolicies", to)) > 0
		if to != pod.Namespace && closed && !ignored {
			code = 1
		}
		pod.Status = corev1.PodStatus{Phase: corev1.PodSucceeded, ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}},
		}}
	}
	next, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod)
	if err != nil {
		return
	}
	u := &unstructured.Unstructured{Object: next}
	u.SetAPIVersion("v1")
	u.SetKind("Pod")
	if _, there := s.state.get(pods, pod.Namespace, pod.Name); there {
		_ = s.Put(u) // one that was deleted meanwhile stays so
	}
}

// AddAPIServer makes the endpoints of the API server, as each cluster has them.
func (s *Objects) AddAPIServer() error {
	return s.Put(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": map[string]any{
			"name": "kubernetes", "namespace": "default",
			"labels": map[string]any{"kubernetes.io/service-name": "kubernetes"},
		},
		"endpoints": []any{map[string]any{"addresses": []any{"10.0.9.9"}}},
		"ports":     []any{map[string]any{"name": "https", "port": int64(443), "protocol": "TCP"}},
	}})
}
