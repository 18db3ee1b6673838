package kube

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/typed"
)

// generation is what a backup and a restore need of a generation of TiDB Operator. Each method but those of target
// fails with an error that kubeerr.NotServed knows if the generation is not installed.
type generation interface {
	target
	// get reads the object that is named as the cluster; nil if there is none.
	get(ctx context.Context, name cluster.Name) (*unstructured.Unstructured, error)
	// read reads the rest of the cluster.
	read(ctx context.Context, name cluster.Name, o *unstructured.Unstructured) (*source, error)
	// names lists the clusters in a namespace, or in all for an empty one.
	names(ctx context.Context, namespace string) ([]cluster.Name, error)
}

// source is a cluster and how to read its TiKV pods.
type source struct {
	TidbCluster
	// pods selects the TiKV pods.
	pods metav1.ListOptions
	// place returns where a pod's volume is mounted, and what is on it.
	place func(pod *corev1.Pod, volume string) (path string, role cluster.Role, err error)
	// order sorts the pods and numbers them.
	order func([]Pod)
}

func (c *Client) generations() []generation {
	return []generation{generation1{c}, generation2{c}}
}

// served returns an error that kubeerr.NotServed knows if the API server does not have a group's version. It asks
// discovery, which everyone may use: the objects themselves are refused to a role without them, installed or not.
func (c *Client) served(ctx context.Context, groupVersion string) error {
	_, err := c.core.CoreREST().Get().AbsPath("/apis/" + groupVersion).DoRaw(ctx)
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return nil // the objects' own answer counts, which has more detail
	}
	return kubeerr.Wrap(err, "find resources", groupVersion)
}

// Cluster reads a cluster.
func (c *Client) Cluster(ctx context.Context, name cluster.Name) (TidbCluster, error) {
	s, err := c.find(ctx, name)
	if err != nil {
		return TidbCluster{}, err
	}
	return s.TidbCluster, nil
}

// find reads a cluster of any generation. Two of one name are Conflict: a backup of either could be taken for one of
// the other.
func (c *Client) find(ctx context.Context, name cluster.Name) (*source, error) {
	var found *unstructured.Unstructured
	var of generation
	var none error
	missing := 0
	for _, g := range c.generations() {
		ask := ctx
		if found != nil {
			ask = typed.Optional(ctx)
		}
		o, err := g.get(ask, name)
		switch {
		case kubeerr.NotServed(err):
			none, missing = cmp.Or(none, err), missing+1
		case found != nil && failure.Is(err, failure.Denied): // a role from before this generation
		case err != nil:
			return nil, err
		case found != nil && o != nil:
			return nil, failure.New(failure.Conflict, "read cluster", name.String(),
				"both a %s and a %s have this name", found.GetKind(), o.GetKind()).
				WithHint("delete the one without pods: kubectl -n %s get pods --show-labels", name.Namespace)
		case o != nil:
			found, of = o, g
		}
	}
	switch {
	case found != nil:
		return of.read(ctx, name, found)
	case missing == len(c.generations()):
		return nil, none
	}
	return nil, c.noCluster(ctx, name)
}

// Clusters lists the names of the clusters in a namespace, or in all for an empty one, in order. Those of a generation
// that may not be listed are left out if those of another may.
func (c *Client) Clusters(ctx context.Context, namespace string) ([]cluster.Name, error) {
	var names []cluster.Name
	var first error
	failed := 0
	for _, g := range c.generations() {
		of, err := g.names(typed.Optional(ctx), namespace)
		switch {
		case kubeerr.NotServed(err), failure.Is(err, failure.Denied):
			first, failed = cmp.Or(first, err), failed+1
		case err != nil:
			return nil, err
		}
		names = append(names, of...)
	}
	if failed == len(c.generations()) {
		return nil, first
	}
	slices.SortFunc(names, func(a, b cluster.Name) int { return strings.Compare(a.String(), b.String()) })
	return names, nil
}
