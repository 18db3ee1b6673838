package catalog

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// Forget deletes the manifest of a backup whose run failed, with br's documents and the marks, so that nothing names
// snapshots that are deleted: each object in the version that it has now. The claim stays, as the id was used. A
// manifest of another run, or of another backup ts than the one given, is a Conflict, and all of it stays: another
// process recorded it. The zero ts is any. Idempotent.
func (c Catalog) Forget(ctx context.Context, id cluster.BackupID, run cluster.RunID, ts cluster.TS) error {
	m, err := c.Unsealed(ctx, id)
	switch {
	case failure.Is(err, failure.NotFound): // an earlier try deleted it
	case err != nil:
		return err
	case m.Run != run || ts != 0 && m.BackupTS != ts:
		return failure.New(failure.Conflict, "delete manifest", string(id),
			"it is of run %s at backup ts %s, which another process recorded since", m.Run, m.BackupTS)
	}
	if err := c.ForgetForBR(ctx, id, run); err != nil {
		return failure.Annotate(err, "delete manifest", manifest.BRBackupMeta)
	}
	for _, key := range []string{manifest.ManifestKey(id), manifest.BackupMetaKey(id)} {
		if err := c.deleteCurrent(ctx, key); err != nil {
			return err
		}
	}
	return c.ForgetMarks(ctx, id)
}

// ForgetMarks deletes the marks of a set of snapshots that was thrown away, in the version that they have now.
// Idempotent.
func (c Catalog) ForgetMarks(ctx context.Context, id cluster.BackupID) error {
	return c.deleteCurrent(ctx, manifest.MarksKey(id))
}

// deleteCurrent deletes an object, unless it is written again before that.
func (c Catalog) deleteCurrent(ctx context.Context, key string) error {
	found, err := c.Store.List(ctx, key)
	if err != nil {
		return failure.Annotate(err, "delete", key)
	}
	for _, o := range found {
		if o.Key == key {
			return failure.Annotate(c.Store.DeleteVersion(ctx, key, o.Version), "delete", key)
		}
	}
	return nil
}
