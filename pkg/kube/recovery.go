package kube

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// leftRecoveryKey lists the uids of the pods that ran in recovery mode when it was cleared. Only those are
// deleted: a second call must not restart TiKV once more.
const leftRecoveryKey = "tisnap.io/restarted-pods"

// StartTiKV sets the annotation on which the Operator starts TiKV. Setting it again changes nothing.
func (c *Client) StartTiKV(ctx context.Context, name cluster.Name) error {
	return c.updateCluster(ctx, name, "start tikv", func(o *unstructured.Unstructured) bool {
		a := o.GetAnnotations()
		if a[volumesReadyKey] != "" {
			return false
		}
		if a == nil {
			a = map[string]string{}
		}
		a[volumesReadyKey] = "true"
		o.SetAnnotations(a)
		return true
	})
}

// LeaveRecovery clears recovery mode and deletes the TiKV pods that ran in it. Calling it again deletes only
// those of them that are still there. It does not wait for the new pods.
func (c *Client) LeaveRecovery(ctx context.Context, name cluster.Name) error {
	const op = "leave recovery mode"
	list, err := c.core.CoreV1().Pods(name.Namespace).List(ctx, tikvSelector(name))
	if err != nil {
		return wrap(err, op, name.String())
	}
	uids := make([]string, len(list.Items))
	for i := range list.Items {
		uids[i] = string(list.Items[i].UID)
	}
	slices.Sort(uids)
	err = c.updateCluster(ctx, name, op, func(o *unstructured.Unstructured) bool {
		recovery, _, _ := unstructured.NestedBool(o.Object, "spec", "recoveryMode")
		a := o.GetAnnotations()
		if !recovery {
			uids = strings.Split(a[leftRecoveryKey], ",") // of the call that cleared it
			return false
		}
		unstructured.RemoveNestedField(o.Object, "spec", "recoveryMode")
		if a == nil {
			a = map[string]string{}
		}
		a[leftRecoveryKey] = strings.Join(uids, ",")
		o.SetAnnotations(a)
		withFailover(o)
		return true
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelRequests)
	for i := range list.Items {
		if pod := &list.Items[i]; slices.Contains(uids, string(pod.UID)) {
			group.Go(func() error { return c.deletePod(ctx, pod.Namespace, pod.Name, pod.UID) })
		}
	}
	return wrap(group.Wait(), op, name.String())
}

// deletePod deletes a pod if it is still that one; one that is gone is fine.
func (c *Client) deletePod(ctx context.Context, namespace, name string, uid types.UID) error {
	err := c.core.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return wrap(err, "delete pod", namespace+"/"+name)
}

// updateCluster reads, changes and writes the TidbCluster, again if somebody else wrote meanwhile, as the
// Operator does all the time. change returns false if there is nothing to write.
func (c *Client) updateCluster(ctx context.Context, name cluster.Name, op string, change func(*unstructured.Unstructured) bool) error {
	api := c.dynamic.Resource(tidbClusterResource()).Namespace(name.Namespace)
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		o, err := c.getCluster(ctx, name)
		if err != nil || !change(o) {
			return err
		}
		_, err = api.Update(ctx, o, metav1.UpdateOptions{})
		return err
	})
	return wrap(err, op, name.String())
}
