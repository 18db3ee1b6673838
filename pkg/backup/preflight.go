package backup

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// lockTTL is how long a dead run keeps others from the cluster, and how long object storage may be away
// without ending a run. The hold has shorter leases of its own.
const lockTTL = 10 * time.Minute

// preflight changes nothing and finds what could fail later.
func (t *task) preflight(ctx context.Context, s *phase.Scope) error {
	if err := t.catalog.CheckFree(ctx, t.opts.Backup); err != nil {
		return err
	}
	src, err := preflight.Backup(ctx, t.Kube, t.PD, t.EBS, t.opts.Cluster,
		preflight.Limits{MaxLag: t.opts.MaxLag, Pending: t.opts.PendingQuota})
	if err != nil {
		return err
	}
	t.source = src
	s.Note("cluster %s: TiKV %s, %d stores, %d volumes",
		t.opts.Cluster, src.Topology.Version, len(src.Topology.Stores), len(src.Topology.VolumeIDs()))
	return nil
}

// takeLock admits one run at a time to the cluster. A lock that is lost ends the run.
func (t *task) takeLock(ctx context.Context, _ *phase.Scope) error {
	var err error
	t.lock, err = runlock.Take(ctx, t.Store, t.opts.Cluster, t.opts.Owner, lockTTL, func(reason error) { t.cancel(reason) })
	return err
}

// unlock ends a run that has done its work. A lock that cannot be released frees itself, and does not make
// the work undone.
func (t *task) unlock(ctx context.Context, s *phase.Scope) error {
	if err := t.dropLock(ctx, s); err != nil {
		s.Warn("the lock frees itself within %s: %v", lockTTL, err)
	}
	return nil
}

func (t *task) dropLock(ctx context.Context, _ *phase.Scope) error {
	return t.lock.Release(ctx)
}

// claim takes the backup's id in the storage.
func (t *task) claim(ctx context.Context, _ *phase.Scope) error {
	return t.catalog.Claim(ctx, catalog.Claim{
		ID: t.opts.Backup, Run: t.opts.Run, Cluster: t.opts.Cluster, ClaimedAt: t.result.Started,
	})
}
