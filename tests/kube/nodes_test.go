package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// zone is a zone of the test's own, as the nodes of all tests are in one cluster.
func (s system) zone(letter string) string { return "zone-" + s.namespace + "-" + letter }

// node makes a node that pods can be put on, as a kubelet and the cloud's controllers would.
func (s system) node(t *testing.T, zone string) string {
	t.Helper()
	name := "node-" + zone
	api := s.core.CoreV1().Nodes()
	made, err := api.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "topology.ebs.csi.aws.com/zone": zone,
			"tisnap.io/test": s.namespace,
		}},
		Spec: corev1.NodeSpec{ProviderID: "aws:///" + zone + "/i-" + zone},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	made.Spec.Taints = nil // that it is not ready, which every new node carries
	made, err = api.Update(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	room := corev1.ResourceList{
		corev1.ResourceCPU: quantity.MustParse("64"), corev1.ResourceMemory: quantity.MustParse("256Gi"), corev1.ResourcePods: quantity.MustParse("500"),
	}
	made.Status.Capacity, made.Status.Allocatable = room, room
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
	_, err = api.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	return name
}

// runs plays the kubelet of a pod that serves.
func (s system) runs(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	s.setStatus(t, pod, func(status *corev1.PodStatus) {
		status.Phase = corev1.PodRunning
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	})
}

// setStatus changes a pod's status, which the scheduler writes, too.
func (s system) setStatus(t *testing.T, pod *corev1.Pod, change func(*corev1.PodStatus)) {
	t.Helper()
	api := s.core.CoreV1().Pods(s.namespace)
	require.NoError(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		now, err := api.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&now.Status)
		_, err = api.UpdateStatus(t.Context(), now, metav1.UpdateOptions{})
		return err
	}))
}

func (s system) pods(t *testing.T, selector string) []corev1.Pod {
	t.Helper()
	list, err := s.core.CoreV1().Pods(s.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	require.NoError(t, err)
	return list.Items
}
