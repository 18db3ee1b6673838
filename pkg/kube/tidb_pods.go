package kube

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// TiDBPods omits pods that have terminated for good.
func (c *Client) TiDBPods(ctx context.Context, name cluster.Name) ([]string, error) {
	instance, err := c.instance(ctx, name)
	if err != nil {
		return nil, err
	}
	list, err := c.core.Pods(name.Namespace).List(ctx, operator1.ComponentSelector(instance, "tidb"))
	if err != nil {
		return nil, kubeerr.Wrap(err, "list tidb pods", name.String())
	}
	return names(slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})), nil
}
