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
	maxAnnouncements = 50 // of each that fails another one succeeded, so that this many would have to delete at once
	announceInterval = 20 * time.Millisecond
)

// AnnounceDeletion records that a sealed backup of the cluster is about to be buried; Bury it only after this
// succeeded. Before the record is written, check gets the backups that others announced and that are still sealed: an
// error of it is returned, and nothing is recorded. Of two that announce at the same time, one sees the other's backup:
// it reads the record before it checks, and writes only over what it read. What is announced and never buried stays
// sealed, can be restored, and can be announced again. Kinds: those of check and of the store; Corrupt or Usage for a
// record that cannot be read; Limited after too many others were faster.
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
	return failure.New(failure.Limited, "announce deletion", string(one.ID), "others delete backups of %s all the time",
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

// readDeletions leaves out what is buried or gone by now, so that the record does not grow. The version is empty where
// there is none.
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

// stillSealed reports whether the backup is neither buried nor gone. A seal that cannot be read counts as one; that of
// another run is of a later backup of the same name.
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
	s, err := manifest.DecodeSeal(seal)
	return err != nil || s.Run == d.Run, nil //nolint:nilerr // it counts
}

// writeDeletions is false without an error if another one was faster.
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
	// The answer may be lost; the nonce says whether these bytes are ours.
	if stored, _, readErr := c.Store.Get(ctx, key); readErr == nil && bytes.Equal(stored, doc) {
		return true, nil
	}
	if failure.Is(err, failure.Conflict) {
		return false, nil
	}
	return false, err
}
