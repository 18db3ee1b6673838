package backup

import (
	"context"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/phase"
)

// claim takes the backup's id in the storage, and a prefix of TiDB Operator's as br does.
func (r *run) claim(ctx context.Context, _ *phase.Scope) error {
	claim := catalog.Claim{
		ID: r.opts.Backup, Run: r.opts.Run, Cluster: r.opts.Cluster, ClaimedAt: r.runner.Started(),
	}
	if r.opts.ClusterMeta == nil {
		return r.catalog.Claim(ctx, claim)
	}
	if err := r.catalog.ClaimForBR(ctx, claim); err != nil {
		return err
	}
	return r.catalog.LockForBR(ctx, claim)
}

// undoClaim makes a prefix of TiDB Operator's free again, so that the same backup can be tried again there. The id of a
// backup among others stays taken: nil.
func (r *run) undoClaim() func(context.Context, *phase.Scope) error {
	if r.opts.ClusterMeta == nil {
		return nil
	}
	return func(ctx context.Context, _ *phase.Scope) error { return r.catalog.UnlockForBR(ctx, r.opts.Run) }
}
