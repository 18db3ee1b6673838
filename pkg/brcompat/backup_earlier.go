package brcompat

import (
	"context"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// settleEarlier sees to a run of this br that has the storage and is not over, as its pod was killed. If its cut is
// proven and TiDB Operator handed it the same document, this process continues it: it is the same Backup. Else what it
// made is undone, and this process begins from scratch: a Backup that is made again later must not get the snapshots of
// an earlier day. Either waits a minute for the lock to make sure that the run is dead; one that is alive is a
// Conflict.
//
// What else is in the storage is left to the backup, which refuses it.
func (a *app) settleEarlier(ctx context.Context, deps backup.Deps, opts *backup.Options) error {
	held, err := catalog.Catalog{Store: deps.Store}.HolderForBR(ctx)
	if err != nil || held == nil || held.Cluster != opts.Cluster {
		return err
	}
	history, err := phase.ReadHistory(ctx, journal.NewStoreJournal(deps.Store, manifest.JournalPrefix(held.Run)))
	if err != nil || !history.Unfinished() {
		return err
	}
	earlier := *opts
	earlier.Run, earlier.Backup, earlier.Owner = held.Run, held.ID, runlock.NewOwner(held.Run, "br backup")
	clusterID, err := deps.PD.ClusterID(ctx)
	if err != nil {
		return failure.Annotate(err, "read cluster id", opts.Cluster.String())
	}
	if backup.Continues(history, earlier, clusterID) {
		a.log.Warn("the storage has this backup by a run that did not end: it is continued, if its process is dead",
			zap.String("run", string(held.Run)))
		*opts = earlier
		return nil
	}
	if sealed, err := isSealed(ctx, deps, held.ID); err != nil || sealed {
		return err
	}
	a.log.Warn("the storage has a backup by a run that did not end: it is undone, if its process is dead",
		zap.String("run", string(held.Run)))
	err = backup.Abort(ctx, deps,
		backup.Options{Cluster: held.Cluster, Backup: held.ID, Run: held.Run, Owner: earlier.Owner, Tool: opts.Tool})
	return failure.Annotate(err, "undo run "+string(held.Run), deps.Store.URL())
}

// isSealed reports whether the backup is sealed: a tombstone in the place of the seal says that its undo began.
func isSealed(ctx context.Context, deps backup.Deps, id cluster.BackupID) (bool, error) {
	seal, _, err := deps.Store.Get(ctx, manifest.SealKey(id))
	if failure.Is(err, failure.NotFound) {
		return false, nil
	}
	return err == nil && manifest.DecodeTombstone(seal) == nil, failure.Annotate(err, "read seal", string(id))
}
