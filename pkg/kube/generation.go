package kube

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// generation is what a backup needs of a generation of TiDB Operator.
type generation interface {
	// read reads a cluster; nil if there is none of the name.
	read(ctx context.Context, name cluster.Name) (*source, error)
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
	return []generation{generation1{c}}
}

// Cluster reads a cluster.
func (c *Client) Cluster(ctx context.Context, name cluster.Name) (TidbCluster, error) {
	s, err := c.find(ctx, name)
	if err != nil {
		return TidbCluster{}, err
	}
	return s.TidbCluster, nil
}

func (c *Client) find(ctx context.Context, name cluster.Name) (*source, error) {
	for _, g := range c.generations() {
		if s, err := g.read(ctx, name); s != nil || err != nil {
			return s, err
		}
	}
	return nil, c.noCluster(ctx, name)
}

// Clusters lists the names of the clusters in a namespace, or in all for an empty one, in order.
func (c *Client) Clusters(ctx context.Context, namespace string) ([]cluster.Name, error) {
	var names []cluster.Name
	for _, g := range c.generations() {
		of, err := g.names(ctx, namespace)
		if err != nil {
			return nil, err
		}
		names = append(names, of...)
	}
	slices.SortFunc(names, func(a, b cluster.Name) int { return strings.Compare(a.String(), b.String()) })
	return names, nil
}
