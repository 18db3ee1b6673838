package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// lockTTL is how long a dead run keeps others from the cluster, and how long object storage may be away
// without ending a run. The hold has shorter leases of its own.
const lockTTL = 10 * time.Minute

// takeLock admits one run at a time to the cluster. A lock that is lost ends the run.
func (r *run) takeLock(ctx context.Context, s *phase.Scope) error {
	if err := r.storage.ProveServer(ctx, r.Store, r.opts.Tool); err != nil {
		return err
	}
	err := r.fence.Take(ctx, lockTTL, runlock.Notify{
		Wait: r.opts.LockWait, After: r.lastEpoch,
		Lost:     func(reason error) { r.cancel(reason) },
		Watching: func(held *runlock.Record) { s.Note("%s", held.Watching()) },
	})
	if err != nil {
		return err
	}
	r.noteRun()
	return r.storage.Establish(ctx, r.Store, r.storageID)
}

// unlock frees the lock of a run that has done its work. A lock that cannot be released frees itself, and does not make
// the work undone.
func (r *run) unlock(ctx context.Context, s *phase.Scope) error {
	if err := r.dropLock(ctx, s); err != nil {
		s.Warn("the lock frees itself within %s: %v", lockTTL, err)
	}
	return nil
}

// dropLock frees the lock.
func (r *run) dropLock(ctx context.Context, _ *phase.Scope) error {
	err := r.fence.Release(ctx)
	if err == nil {
		r.Remains.Clear(remainsRun)
	}
	return err
}

// claim takes the backup's id in the storage, and a prefix of TiDB Operator's as br does.
func (r *run) claim(ctx context.Context, _ *phase.Scope) error {
	claim := catalog.Claim{
		ID: r.opts.Backup, Run: r.opts.Run, Cluster: r.opts.Cluster, ClaimedAt: r.result.Started,
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
