package catalog

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Bury puts a tombstone in the place of a backup's seal: from then on it can be neither restored nor sealed.
// With onlyUnsealed a backup that has a seal is a Conflict and stays as it is, however the race with its run
// ends. Burying again succeeds.
func (c Catalog) Bury(ctx context.Context, id cluster.BackupID, reason string, onlyUnsealed bool) error {
	stone, err := manifest.Tombstone(id, reason, time.Now())
	if err != nil {
		return err
	}
	key := manifest.SealKey(id)
	seal, version, err := c.Store.Get(ctx, key)
	switch {
	case failure.Is(err, failure.NotFound):
		_, err = c.Store.Create(ctx, key, stone)
	case err != nil:
	case manifest.DecodeTombstone(seal) != nil:
		return nil
	case onlyUnsealed:
		return c.sealedMeanwhile(id)
	default:
		_, err = c.Store.Replace(ctx, key, stone, version)
	}
	if err == nil {
		return nil
	}
	// The answer may be lost, or somebody else was first.
	stored, _, readErr := c.Store.Get(ctx, key)
	switch {
	case readErr == nil && manifest.DecodeTombstone(stored) != nil:
		return nil
	case readErr == nil && onlyUnsealed:
		return c.sealedMeanwhile(id)
	}
	return failure.Annotate(err, "bury backup", string(id))
}

func (c Catalog) sealedMeanwhile(id cluster.BackupID) error {
	return failure.New(failure.Conflict, "bury backup", string(id), "it is sealed").
		WithHint("remove it with: tisnap delete %s", id)
}

// Buried reports whether a tombstone stands in the place of the backup's seal.
func (c Catalog) Buried(ctx context.Context, id cluster.BackupID) (bool, error) {
	seal, _, err := c.Store.Get(ctx, manifest.SealKey(id))
	if failure.Is(err, failure.NotFound) {
		return false, nil
	}
	return err == nil && manifest.DecodeTombstone(seal) != nil, failure.Annotate(err, "check for a tombstone", string(id))
}

// Remove buries the backup and deletes all its objects, and br's of the same backup, the tombstone last, so that what is half removed
// stays buried. The snapshots have to be deleted before. Removing what is not there succeeds.
func (c Catalog) Remove(ctx context.Context, id cluster.BackupID) error {
	if err := manifest.CheckID(id); err != nil {
		return err
	}
	found, err := c.Store.List(ctx, manifest.BackupPrefix(id))
	if err != nil {
		return failure.Annotate(err, "remove backup", string(id))
	}
	if len(found) == 0 {
		return nil
	}
	if err := c.Bury(ctx, id, "removed", false); err != nil {
		return err
	}
	if err := c.removeForBR(ctx, id); err != nil {
		return failure.Annotate(err, "remove backup", string(id))
	}
	for _, key := range removalOrder(id, found) {
		if err := c.Store.Delete(ctx, key); err != nil {
			return failure.Annotate(err, "remove backup", string(id))
		}
	}
	return nil
}

// removalOrder puts what identifies the backup behind the rest, and the tombstone last.
func removalOrder(id cluster.BackupID, found []objstore.Object) []string {
	last := []string{manifest.ManifestKey(id), manifest.ClaimKey(id), manifest.SealKey(id)}
	keys := make([]string, 0, len(found)+len(last))
	for _, o := range found {
		if o.Key != last[0] && o.Key != last[1] && o.Key != last[2] {
			keys = append(keys, o.Key)
		}
	}
	return append(keys, last...)
}
