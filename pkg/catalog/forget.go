package catalog

import (
	"context"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// Forget deletes a failed run's manifest, with br's documents and the marks, so that nothing names deleted snapshots:
// each object in its current version. The claim stays, because the id was used. A manifest of another run, or with
// another backup ts than the given one, is a Conflict and everything stays: another process recorded it. The zero ts
// matches any. Idempotent.
func (c Catalog) Forget(ctx context.Context, id cluster.BackupID, run cluster.RunID, ts cluster.TS) error {
	m, err := c.Unsealed(ctx, id)
	switch {
	case failure.Is(err, failure.NotFound): // an earlier try deleted it
	case err != nil:
		return err
	case m.Run != run || ts != 0 && m.BackupTS != ts:
		return failure.New(failure.Conflict, "delete manifest", string(id),
			"another process has since recorded run %s at backup ts %s", m.Run, m.BackupTS)
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

// ForgetMarks deletes the marks of a discarded set of snapshots, in their current version. Idempotent.
func (c Catalog) ForgetMarks(ctx context.Context, id cluster.BackupID) error {
	return c.deleteCurrent(ctx, manifest.MarksKey(id))
}

// deleteCurrent deletes an object, unless it is rewritten first.
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
