package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// claim reserves the backup's id in the storage, and locks a prefix of TiDB Operator's as br does.
func (w *recorder) claim(ctx context.Context, at time.Time) error {
	claim := catalog.Claim{ID: w.opts.Backup, Run: w.opts.Run, Cluster: w.opts.Cluster, ClaimedAt: at}
	if w.opts.ClusterMeta == nil {
		return w.catalog.Claim(ctx, claim)
	}
	if err := w.catalog.ClaimForBR(ctx, claim); err != nil {
		return err
	}
	return w.catalog.LockForBR(ctx, claim)
}

// undoClaim unlocks a prefix of TiDB Operator's, so that the same backup can be retried there. In a shared storage the
// backup's id stays reserved.
func (w *recorder) undoClaim() func(context.Context, *phase.Scope) error {
	if w.opts.ClusterMeta == nil {
		return nil
	}
	return func(ctx context.Context, _ *phase.Scope) error { return w.catalog.UnlockForBR(ctx, w.opts.Run) }
}

// free gives up the name of an aborted run, of which nothing is left. A seal on its way when the run died may arrive
// late: that backup stays buried. So does one in a prefix of TiDB Operator's, which is unlocked: its document is not
// known here.
func (w *recorder) free(ctx context.Context) error {
	held, err := w.catalog.HolderForBR(ctx)
	if err != nil {
		return err
	}
	if held != nil && held.Run == w.opts.Run {
		return w.catalog.UnlockForBR(ctx, w.opts.Run)
	}
	of, err := w.catalog.RunOf(ctx, w.opts.Backup)
	switch {
	case failure.Is(err, failure.NotFound):
		return nil // it died before its claim
	case err != nil || of != w.opts.Run || w.sealing:
		return err
	}
	return w.catalog.Remove(ctx, w.opts.Backup, w.opts.Run)
}
