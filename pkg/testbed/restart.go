package testbed

import (
	"context"
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Pods lists the names of the pods whose stores run, in order.
func (c *Cluster) Pods() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	pods := make([]string, 0, len(c.stores))
	for pod := range c.stores {
		pods = append(pods, pod)
	}
	slices.Sort(pods)
	return pods
}

// Store is the process of a pod, or nil.
func (c *Cluster) Store(pod string) *tikvtest.Store {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stores[pod]
}

// RestartStore deletes a TiKV pod, as a rolling restart does, and waits until its new process runs. A pod keeps
// its name, its volumes and its address.
func (t *Testbed) RestartStore(ctx context.Context, name cluster.Name, pod string) error {
	c := t.Nodes.Cluster(name)
	if c == nil {
		return fmt.Errorf("restart pod %s: no cluster %s", pod, name)
	}
	before := c.Store(pod)
	if err := t.remove(ctx, "pods", name.Namespace, pod); err != nil {
		return err
	}
	err := wait.Until(ctx, wait.Every(poll), func() (bool, error) {
		now := c.Store(pod)
		return now != nil && now != before, nil
	})
	return failure.Annotate(err, "wait for pod", pod)
}
