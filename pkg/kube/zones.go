package kube

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/workers"
)

// Zones lists the zones of the nodes that take such pods, in order; none if the nodes have no zones. Nodes that are not
// ready have a taint.
func (c *Client) Zones(ctx context.Context, of *workers.Spec) ([]cluster.Zone, error) {
	list, err := c.core.Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.Set(of.NodeSelector).String()})
	if err != nil {
		return nil, kubeerr.Wrap(err, "list zones", "nodes")
	}
	found := map[cluster.Zone]bool{}
	for i := range list.Items {
		node := &list.Items[i]
		if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" && !node.Spec.Unschedulable &&
			of.Tolerates(node.Spec.Taints) {
			found[cluster.Zone(zone)] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
