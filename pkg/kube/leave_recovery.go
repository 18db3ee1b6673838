package kube

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// LeaveRecovery clears recovery mode and deletes the TiKV pods that ran in it. A repeated call deletes only the
// remaining ones of them. It does not wait for the new pods.
func (c *Client) LeaveRecovery(ctx context.Context, name cluster.Name) error {
	const op = "leave recovery mode"
	instance, err := c.instance(ctx, name)
	if err != nil {
		return err
	}
	list, err := c.core.Pods(name.Namespace).List(ctx, operator1.ComponentSelector(instance, operator1.TiKV))
	if err != nil {
		return kubeerr.Wrap(err, op, name.String())
	}
	uids := make([]string, len(list.Items))
	for i := range list.Items {
		uids[i] = string(list.Items[i].UID)
	}
	slices.Sort(uids)
	err = c.updateCluster(ctx, name, op, func(o *unstructured.Unstructured) bool {
		var cleared bool
		uids, cleared = operator1.LeaveRecovery(o, uids)
		return cleared
	})
	if err != nil {
		return err
	}
	restarted := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !slices.Contains(uids, string(p.UID)) })
	return kubeerr.Wrap(c.deleteEachPod(ctx, restarted), op, name.String())
}

// StartTiDB restores the number of TiDB replicas, which CreateCluster set to 0. It does nothing to a target created by
// others, or when repeated.
func (c *Client) StartTiDB(ctx context.Context, name cluster.Name) error {
	return c.updateCluster(ctx, name, "start tidb", operator1.StartTiDB)
}

// deleteEachPod deletes the pods, all at once.
func (c *Client) deleteEachPod(ctx context.Context, list []corev1.Pod) error {
	return parallel.Each(ctx, parallelRequests, list, func(ctx context.Context, _ int, pod corev1.Pod) error {
		return c.deletePod(ctx, pod.Namespace, pod.Name, pod.UID)
	})
}

// deletePod deletes the pod with this uid; a missing one is no error.
func (c *Client) deletePod(ctx context.Context, namespace, name string, uid types.UID) error {
	err := c.core.Pods(namespace).
		Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return kubeerr.Wrap(err, "delete pod", namespace+"/"+name)
}
