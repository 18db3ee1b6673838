package brcompat

import (
	"context"
	"crypto/tls"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// connections are the clients that a command opened. close closes them all. There is no Kubernetes client: br's pod has
// no kubeconfig, and clustermeta names the stores and volumes.
type connections struct {
	common *Common
	log    *zap.Logger
	tls    *tls.Config
	aws    string // EC2 endpoint; empty for the environment's
	closer []func()
}

func (a *app) connect() (*connections, error) {
	cfg, err := a.common.TLS.Config()
	if err != nil {
		return nil, err
	}
	return &connections{common: &a.common, log: a.log.Logger, tls: cfg, aws: a.streams.EC2}, nil
}

func (c *connections) close() {
	for i := len(c.closer) - 1; i >= 0; i-- {
		c.closer[i]()
	}
	c.closer = nil
}

// store returns the storage of --storage. Nothing is contacted before its first call.
func (c *connections) store(ctx context.Context) (objstore.Store, error) {
	store, err := c.common.openStorage(ctx, objstore.Config{Log: c.log})
	if err != nil {
		return nil, err
	}
	if closer, ok := store.(interface{ Close() }); ok {
		c.closer = append(c.closer, closer.Close)
	}
	return store, nil
}

// ebs returns EC2 in --s3.region, with the environment's credentials or by --ebs-role-arn.
func (c *connections) ebs(ctx context.Context) (*ebs.Client, error) {
	client, err := ebs.Open(ctx, ebs.Config{
		Region: c.common.S3.Region, Endpoint: c.aws, RoleARN: c.common.EBSRole, ExternalID: c.common.EBSExternalID,
		Log: c.log,
	})
	if err != nil {
		return nil, err
	}
	c.closer = append(c.closer, client.Close)
	return client, nil
}

func (c *connections) pd(ctx context.Context) (*pd.Client, error) {
	client, err := pd.Open(ctx, pd.Config{Addresses: c.common.PD, TLS: c.tls, Logger: c.log})
	if err != nil {
		return nil, err
	}
	c.closer = append(c.closer, client.Close)
	return client, nil
}

func (c *connections) tikv() *tikv.Client {
	client := tikv.Open(tikv.Config{
		TLS: c.tls, KeepaliveTime: c.common.KeepaliveTime, KeepaliveTimeout: c.common.KeepaliveTimeout,
	})
	c.closer = append(c.closer, client.Close)
	return client
}
