package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore"
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

// Free gives up the name of a run that has ended and left no snapshot: its abort may have been killed before it came to
// that. It reports false, and changes nothing, if the name is free, or must stay taken. confirm is called right before
// the change, and its error prevents it.
func Free(
	ctx context.Context, store objstore.Store, id cluster.BackupID, run cluster.RunID, h *phase.History,
	confirm func() error,
) (bool, error) {
	if !h.Ended || h.Began(journal.StepCut) {
		return false, nil
	}
	w := recorder{
		catalog: catalog.Catalog{Store: store}, opts: Options{Backup: id, Run: run}, sealing: h.Began(journal.StepSeal),
	}
	return w.free(ctx, confirm)
}

// free gives up the name of an aborted run, of which nothing is left, and reports whether it had one. A seal on its way
// when the run died may arrive late: that backup stays buried. So does one in a prefix of TiDB Operator's, which is
// unlocked: its document is unknown here.
func (w *recorder) free(ctx context.Context, confirm func() error) (bool, error) {
	held, err := w.catalog.HolderForBR(ctx)
	if err != nil {
		return false, err
	}
	if held != nil && held.Run == w.opts.Run {
		if err := confirm(); err != nil {
			return false, err
		}
		return true, w.catalog.UnlockForBR(ctx, w.opts.Run)
	}
	of, err := w.catalog.RunOf(ctx, w.opts.Backup)
	switch {
	case failure.Is(err, failure.NotFound): // it died before its claim, or an abort after it had deleted that
		buried, err := w.catalog.Buried(ctx, w.opts.Backup)
		if err != nil || !buried || w.sealing {
			return false, err
		}
	case err != nil || of != w.opts.Run || w.sealing:
		return false, err
	}
	if err := confirm(); err != nil {
		return false, err
	}
	return true, w.catalog.Remove(ctx, w.opts.Backup, w.opts.Run)
}
