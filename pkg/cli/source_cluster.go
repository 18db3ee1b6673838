package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/wait"
)

// sourcePatience is how long the read of a cluster that runs is tried again after transient errors. An API server that was
// restarted is back by then (about one second, as recorded from a real one), and a night's backup is worth the wait; a person
// whose kubeconfig names a wrong address waits no longer.
const (
	sourcePatience    = 10 * time.Second
	sourceMinInterval = 250 * time.Millisecond
	sourceMaxInterval = 2 * time.Second
)

// sourceCluster reads a cluster that runs, before there is a run whose steps would be tried again. It says when it tries again.
func (c *connections) sourceCluster(ctx context.Context, k *kube.Client, name cluster.Name) (kube.TidbCluster, error) {
	begin := time.Now()
	for interval := sourceMinInterval; ; interval = min(2*interval, sourceMaxInterval) {
		tc, err := k.Cluster(ctx, name)
		if !failure.Transient(err) || time.Since(begin)+interval > sourcePatience {
			return tc, err
		}
		c.say(fmt.Sprintf("trying again: %v", err))
		if wait.For(ctx, interval) != nil {
			return tc, err
		}
	}
}
