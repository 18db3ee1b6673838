package round

import (
	"context"

	"github.com/tisnap/tisnap/pkg/testbed"
)

// verifyReplicas checks each store's own data.
func (s *state) verifyReplicas(ctx context.Context, c *testbed.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	n, err := c.AwaitEqualReplicas(ctx)
	if err != nil {
		return err
	}
	s.passed("%d replicas have the data of their region's leader", n)
	return nil
}
