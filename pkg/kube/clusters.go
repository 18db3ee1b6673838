package kube

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// instance returns TidbCluster.Instance, or the name if the cluster does not exist.
func (c *Client) instance(ctx context.Context, name cluster.Name) (string, error) {
	o, err := c.dynamic.Resource(operator1.Resource()).Namespace(name.Namespace).
		Get(ctx, name.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return name.Name, nil
	}
	if err != nil {
		return "", kubeerr.Wrap(err, "read tidbcluster", name.String())
	}
	return operator1.Instance(o), nil
}

// getCluster reads the TidbCluster; a missing one is NotFound, with the existing names in the hint.
func (c *Client) getCluster(ctx context.Context, name cluster.Name) (*unstructured.Unstructured, error) {
	o, err := c.dynamic.Resource(operator1.Resource()).Namespace(name.Namespace).
		Get(ctx, name.Name, metav1.GetOptions{})
	if err = kubeerr.Wrap(err, "read tidbcluster", name.String()); failure.Is(err, failure.NotFound) {
		return nil, c.noCluster(ctx, name)
	}
	return o, err
}

// noCluster is the NotFound of a cluster, with the existing names in the hint.
func (c *Client) noCluster(ctx context.Context, name cluster.Name) error {
	missing := failure.New(failure.NotFound, readCluster, name.String(), "it does not exist")
	list, err := c.Clusters(ctx, name.Namespace)
	switch {
	case err != nil:
		return missing.WithHint("list the clusters with `kubectl get tidbclusters,clusters.core.pingcap.com -A`")
	case len(list) == 0:
		return missing.WithHint("name another namespace: %s has no cluster", name.Namespace)
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].Name
	}
	return missing.WithHint("use one that exists in namespace %s: %s", name.Namespace, strings.Join(names, ", "))
}
