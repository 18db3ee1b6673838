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

const leaveRecovery = "leave recovery mode"

// leaveRecovery clears recovery mode, and restarts TiKV as restartTiKV does.
func (c generation1) leaveRecovery(ctx context.Context, name cluster.Name) error {
	instance, err := c.instance(ctx, name)
	if err != nil {
		return err
	}
	return c.restartTiKV(ctx, name, operator1.ComponentSelector(instance, operator1.TiKV), nil,
		func(uids []string) ([]string, error) {
			err := c.updateCluster(ctx, name, leaveRecovery, func(o *unstructured.Unstructured) (changed bool) {
				uids, changed = operator1.LeaveRecovery(o, uids)
				return changed
			})
			return uids, err
		})
}

// restartTiKV has leave record the uids of the TiKV pods, which run in recovery mode, and deletes those pods. leave
// returns the uids that an earlier call recorded, if there was one: a repeated call deletes only what remains of them.
// It does not wait for the new pods.
func (c *Client) restartTiKV(
	ctx context.Context, name cluster.Name, pods metav1.ListOptions, grace *int64,
	leave func(uids []string) (recorded []string, err error),
) error {
	list, err := c.core.Pods(name.Namespace).List(ctx, pods)
	if err != nil {
		return kubeerr.Wrap(err, leaveRecovery, name.String())
	}
	uids := make([]string, len(list.Items))
	for i := range list.Items {
		uids[i] = string(list.Items[i].UID)
	}
	slices.Sort(uids)
	if uids, err = leave(uids); err != nil {
		return err
	}
	restarted := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !slices.Contains(uids, string(p.UID)) })
	err = parallel.Each(ctx, parallelRequests, restarted, func(ctx context.Context, _ int, pod corev1.Pod) error {
		return c.deletePod(ctx, pod.Namespace, pod.Name, pod.UID, grace)
	})
	return kubeerr.Wrap(err, leaveRecovery, name.String())
}

// startTiDB restores the number of TiDB replicas, which CreateCluster set to 0. It does nothing to a target created by
// others, or when repeated.
func (c generation1) startTiDB(ctx context.Context, name cluster.Name) error {
	return c.updateCluster(ctx, name, "start tidb", operator1.StartTiDB)
}

// deletePod deletes the pod with this uid, with a grace period of so many seconds; nil for its own. A missing one is no
// error.
func (c *Client) deletePod(ctx context.Context, namespace, name string, uid types.UID, grace *int64) error {
	this := onlyThis(uid)
	this.GracePeriodSeconds = grace
	err := c.core.Pods(namespace).Delete(ctx, name, this)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return kubeerr.Wrap(err, "delete pod", namespace+"/"+name)
}
