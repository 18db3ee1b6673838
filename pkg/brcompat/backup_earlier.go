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

// endEarlierPause handles an unfinished run of this br in the storage, whose pod was killed. If its cut is proven and
// TiDB Operator gave it the same document, it is the same Backup and this process resumes it. Otherwise this process
// undoes it and starts from scratch: a Backup created later must not get an earlier day's snapshots. Either way it
// watches the lock for a minute to make sure that the run is dead; a live one is a Conflict.
//
// Anything else in the storage is left to the backup, which refuses it.
func (a *app) endEarlierPause(ctx context.Context, deps backup.Deps, opts *backup.Options) error {
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
		a.log.Warn("an unfinished run of this backup is in the storage: resuming it if its process is dead",
			zap.String("run", string(held.Run)))
		*opts = earlier
		return nil
	}
	if sealed, err := isSealed(ctx, deps, held.ID); err != nil || sealed {
		return err
	}
	a.log.Warn("an unfinished run of another backup is in the storage: undoing it if its process is dead",
		zap.String("run", string(held.Run)))
	err = backup.Abort(ctx, deps,
		backup.Options{Cluster: held.Cluster, Backup: held.ID, Run: held.Run, Owner: earlier.Owner, Tool: opts.Tool})
	return failure.Annotate(err, "undo run "+string(held.Run), deps.Store.URL())
}

// isSealed reports whether the backup is sealed; a tombstone in place of the seal means that its undo has begun.
func isSealed(ctx context.Context, deps backup.Deps, id cluster.BackupID) (bool, error) {
	seal, _, err := deps.Store.Get(ctx, manifest.SealKey(id))
	if failure.Is(err, failure.NotFound) {
		return false, nil
	}
	return err == nil && manifest.DecodeTombstone(seal) == nil, failure.Annotate(err, "read seal", string(id))
}
