package kube

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// Clusters lists the names of the TidbClusters in a namespace, or in all for an empty one, in order.
func (c *Client) Clusters(ctx context.Context, namespace string) ([]cluster.Name, error) {
	list, err := c.dynamic.Resource(operator1.Resource()).Namespace(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kubeerr.Wrap(err, "list tidbclusters", namespace)
	}
	names := make([]cluster.Name, len(list.Items))
	for i := range list.Items {
		names[i] = cluster.Name{Namespace: list.Items[i].GetNamespace(), Name: list.Items[i].GetName()}
	}
	slices.SortFunc(names, func(a, b cluster.Name) int { return strings.Compare(a.String(), b.String()) })
	return names, nil
}
