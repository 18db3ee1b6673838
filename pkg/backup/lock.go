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
	var err error
	r.lock, err = runlock.Take(ctx, r.Store, r.opts.Cluster, r.opts.Owner, lockTTL, runlock.Notify{
		Lost:     func(reason error) { r.cancel(reason) },
		Watching: func(held *runlock.Record) { s.Note("%s", held.Watching()) },
	})
	return err
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
	return r.lock.Release(ctx)
}

// claim takes the backup's id in the storage.
func (r *run) claim(ctx context.Context, _ *phase.Scope) error {
	return r.catalog.Claim(ctx, catalog.Claim{
		ID: r.opts.Backup, Run: r.opts.Run, Cluster: r.opts.Cluster, ClaimedAt: r.result.Started,
	})
}
