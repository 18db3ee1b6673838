package catalog

import (
	"bytes"
	"context"
	"crypto/rand"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	maxAnnouncements = 50 // a try fails only if another process succeeded, so this many would have to delete at once
	announceInterval = 20 * time.Millisecond
)

// AnnounceDeletion records that a sealed backup of the cluster is about to be buried; call Bury only after it
// succeeded. Before writing the record, it passes check the backups that others have announced and that are still
// sealed; if check returns an error, nothing is recorded. Of two concurrent announcements, one sees the other's backup,
// because each reads the record before it checks and overwrites only what it read. A backup announced but never buried
// stays sealed and restorable, and can be announced again. Kinds: those of check and of the store; Corrupt or Usage for
// an unreadable record; Limited after losing too many races.
func (c Catalog) AnnounceDeletion(ctx context.Context, name cluster.Name, one manifest.Deletion,
	check func(ctx context.Context, announced map[cluster.BackupID]bool) error,
) error {
	for range maxAnnouncements {
		known, version, err := c.readDeletions(ctx, name)
		if err != nil {
			return failure.Annotate(err, "announce deletion", string(one.ID))
		}
		if err := check(ctx, others(known, one.ID)); err != nil {
			return err
		}
		written, err := c.writeDeletions(ctx, known.With(one, rand.Text()), version)
		if written || err != nil {
			return failure.Annotate(err, "announce deletion", string(one.ID))
		}
		if err := wait.For(ctx, announceInterval); err != nil {
			return failure.Annotate(err, "announce deletion", string(one.ID))
		}
	}
	return failure.New(failure.Limited, "announce deletion", string(one.ID),
		"too many concurrent deletions of backups of %s",
		name).
		WithHint("run it again")
}

func others(known manifest.Deletions, id cluster.BackupID) map[cluster.BackupID]bool {
	out := map[cluster.BackupID]bool{}
	for _, d := range known.Backups {
		if d.ID != id {
			out[d.ID] = true
		}
	}
	return out
}

// readDeletions omits what is buried or gone by now, so that the record does not grow. The version is empty if there is
// no record.
func (c Catalog) readDeletions(ctx context.Context, name cluster.Name) (manifest.Deletions, objstore.Version, error) {
	key := manifest.DeletionsKey(name)
	doc, version, err := c.Store.Get(ctx, key)
	if failure.Is(err, failure.NotFound) {
		return manifest.Deletions{Cluster: name}, "", nil
	}
	if err != nil {
		return manifest.Deletions{}, "", err
	}
	stored, err := manifest.DecodeDeletions(doc)
	if err != nil {
		return stored, "", failure.Annotate(err, "read deletions", key)
	}
	known := manifest.Deletions{Cluster: name}
	for _, d := range stored.Backups {
		still, err := c.stillSealed(ctx, d)
		if err != nil {
			return known, "", err
		}
		if still {
			known.Backups = append(known.Backups, d)
		}
	}
	return known, version, nil
}

// stillSealed reports whether the backup is neither buried nor gone. An unreadable seal counts as sealed; another run's
// seal belongs to a later backup of the same name.
func (c Catalog) stillSealed(ctx context.Context, d manifest.Deletion) (bool, error) {
	seal, _, err := c.Store.Get(ctx, manifest.SealKey(d.ID))
	switch {
	case failure.Is(err, failure.NotFound):
		return false, nil
	case err != nil:
		return false, err
	case manifest.DecodeTombstone(seal) != nil:
		return false, nil
	}
	s, unreadable := manifest.DecodeSeal(seal)
	return unreadable != nil || s.Run == d.Run, nil //nolint:nilerr // as above
}

// writeDeletions returns false without an error if another writer was faster.
func (c Catalog) writeDeletions(ctx context.Context, d manifest.Deletions, version objstore.Version) (bool, error) {
	doc, err := d.Encode()
	if err != nil {
		return false, err
	}
	key := manifest.DeletionsKey(d.Cluster)
	if version == "" {
		_, err = c.Store.Create(ctx, key, doc)
	} else {
		_, err = c.Store.Replace(ctx, key, doc, version)
	}
	if err == nil {
		return true, nil
	}
	// The answer may be lost; the nonce shows whether these bytes are ours.
	if stored, _, readErr := c.Store.Get(ctx, key); readErr == nil && bytes.Equal(stored, doc) {
		return true, nil
	}
	if failure.Is(err, failure.Conflict) {
		return false, nil
	}
	return false, err
}
