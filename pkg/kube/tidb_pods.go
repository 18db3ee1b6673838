package kube

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

func (c generation1) tidbPods(ctx context.Context, name cluster.Name) ([]string, error) {
	instance, err := c.instance(ctx, name)
	if err != nil {
		return nil, err
	}
	return c.tidbPodsOf(ctx, name, operator1.ComponentSelector(instance, "tidb"))
}

// tidbPodsOf omits pods that have terminated for good.
func (c *Client) tidbPodsOf(ctx context.Context, name cluster.Name, pods metav1.ListOptions) ([]string, error) {
	list, err := c.core.Pods(name.Namespace).List(ctx, pods)
	if err != nil {
		return nil, kubeerr.Wrap(err, "list tidb pods", name.String())
	}
	return names(slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})), nil
}
