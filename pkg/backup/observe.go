package backup

import (
	"context"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/hold"
)

// observe finds another process's hold. It may return one even with an error, to be disconnected.
func (o *holder) observe(ctx context.Context, log *zap.Logger, stores []hold.Target) (*hold.Hold, error) {
	return hold.Observe(ctx, hold.Config{
		Cluster: o.opts.Cluster, Stores: stores, Lease: o.opts.Lease, MaxHold: o.opts.MaxHold, Log: log,
	}, o.pd, o.tikv)
}
