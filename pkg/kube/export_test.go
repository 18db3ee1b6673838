package kube

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Read2 reads a cluster of TiDB Operator 2.x and its pods; found is false if there is none.
func (c *Client) Read2(ctx context.Context, name cluster.Name) (found bool, read TidbCluster, pods []Pod, err error) {
	s, err := generation2{c}.read(ctx, name)
	if s == nil || err != nil {
		return false, TidbCluster{}, nil, err
	}
	pods, err = c.podsOf(ctx, name, s)
	return true, s.TidbCluster, pods, err
}

// Names2 lists the clusters of TiDB Operator 2.x.
func (c *Client) Names2(ctx context.Context, namespace string) ([]cluster.Name, error) {
	return generation2{c}.names(ctx, namespace)
}
