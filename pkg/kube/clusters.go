package kube

import (
	"context"
	"sort"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// Cluster reads a TidbCluster.
func (c *Client) Cluster(ctx context.Context, name cluster.Name) (TidbCluster, error) {
	tc, _, err := c.readCluster(ctx, name)
	return tc, err
}

// readCluster also returns spec.tikv.config.
func (c *Client) readCluster(ctx context.Context, name cluster.Name) (TidbCluster, any, error) {
	o, err := c.getCluster(ctx, name)
	if err != nil {
		return TidbCluster{}, nil, err
	}
	return operator1.Read(name, o)
}

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

// getCluster reads the object; a missing one is NotFound, with the existing names in the hint.
func (c *Client) getCluster(ctx context.Context, name cluster.Name) (*unstructured.Unstructured, error) {
	api := c.dynamic.Resource(operator1.Resource()).Namespace(name.Namespace)
	o, err := api.Get(ctx, name.Name, metav1.GetOptions{})
	if err == nil {
		return o, nil
	}
	wrapped := kubeerr.Wrap(err, "read tidbcluster", name.String())
	if !apierrors.IsNotFound(err) || !failure.Is(wrapped, failure.NotFound) {
		return nil, wrapped
	}
	missing := failure.New(failure.NotFound, "read tidbcluster", name.String(), "it does not exist")
	list, listErr := api.List(ctx, metav1.ListOptions{})
	switch {
	case listErr != nil:
		return nil, missing.WithHint("list the clusters with `kubectl get tidbclusters -A`")
	case len(list.Items) == 0:
		return nil, missing.WithHint("name another namespace: %s has no tidbcluster", name.Namespace)
	}
	names := make([]string, len(list.Items))
	for i := range list.Items {
		names[i] = list.Items[i].GetName()
	}
	sort.Strings(names)
	return nil, missing.WithHint("use one that exists in namespace %s: %s", name.Namespace, strings.Join(names, ", "))
}
