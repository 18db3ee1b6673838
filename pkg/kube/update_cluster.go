package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube/operator1"
)

// startTiKV sets the annotation that makes the Operator start TiKV. Idempotent.
func (c generation1) startTiKV(ctx context.Context, name cluster.Name, _ []RestoredVolume) error {
	return c.updateCluster(ctx, name, "start tikv", operator1.StartTiKV)
}

// updateCluster reads, changes and writes the TidbCluster, retrying on conflicts, which the Operator's constant writes
// cause. change returns false if there is nothing to write.
func (c *Client) updateCluster(
	ctx context.Context, name cluster.Name, op string, change func(*unstructured.Unstructured) bool,
) error {
	api := c.dynamic.Resource(operator1.Resource()).Namespace(name.Namespace)
	return untilWritten(ctx, op, name.String(), func() error {
		o, err := c.getCluster(ctx, name)
		if err != nil || !change(o) {
			return err
		}
		_, err = api.Update(ctx, o, metav1.UpdateOptions{})
		return err
	})
}
