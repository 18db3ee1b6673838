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
)

// Zones lists the zones of the nodes with these labels that take pods, in order; none if the nodes have no zones.
func (c *Client) Zones(ctx context.Context, with map[string]string) ([]cluster.Zone, error) {
	list, err := c.core.Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.Set(with).String()})
	if err != nil {
		return nil, kubeerr.Wrap(err, "list zones", "nodes")
	}
	found := map[cluster.Zone]bool{}
	for i := range list.Items {
		node := &list.Items[i]
		if zone := node.Labels[corev1.LabelTopologyZone]; zone != "" && !node.Spec.Unschedulable {
			found[cluster.Zone(zone)] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}
