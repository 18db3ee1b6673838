package cli

import (
	"context"
	"crypto/tls"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/restore"
)

// clientTLS returns the TLS configuration for PD and the stores; nil for none.
func (c *connections) clientTLS() *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tls
}

// withoutTLS forgets the configuration of the files.
func (c *connections) withoutTLS() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tls = nil
}

// secure reads the client certificate from the secrets of a cluster with TLS, unless files were given.
func (c *connections) secure(ctx context.Context, k *kube.Client, tc *kube.TidbCluster) error {
	if !tc.TLS || c.clientTLS() != nil {
		return nil
	}
	cfg, err := k.ClientTLS(ctx, tc.Name.Namespace, tc.ClientCA, tc.ClientPair)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tls = cfg
	return nil
}

// sourcePD connects to the PD of a running cluster.
func (c *connections) sourcePD(ctx context.Context, k *kube.Client, tc *kube.TidbCluster) (*pd.Client, error) {
	if err := c.secure(ctx, k, tc); err != nil {
		return nil, err
	}
	return c.pd(ctx, tc.PDAddresses, tc.Name)
}

// targetPD connects to the PD of a restore's target, which this run may have just created.
func (c *connections) targetPD(
	ctx context.Context, k *kube.Client, addresses []string, name cluster.Name,
) (restore.PD, error) {
	if c.clientTLS() == nil {
		tc, err := k.Cluster(ctx, name)
		if err != nil {
			return nil, err
		}
		if err := c.secure(ctx, k, &tc); err != nil {
			return nil, err
		}
	}
	return c.pd(ctx, addresses, name)
}
