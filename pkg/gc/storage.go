package gc

import (
	"context"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/storage"
)

// openStorage finds out which storage this is. A copy of another is Unready, and nothing of it is looked at: it has the original's
// journals and backups, and what these name is in the original's use.
func (w *world) openStorage(ctx context.Context, d Deps, dryRun bool) error {
	found, err := openStorage(ctx, d, dryRun)
	if err != nil {
		return err
	}
	w.storage = *found
	return w.storage.RefuseCopy("delete")
}

func openStorage(ctx context.Context, d Deps, dryRun bool) (*storage.Storage, error) {
	if dryRun {
		return storage.Read(ctx, d.Store)
	}
	return storage.Open(ctx, d.Store, d.Tool)
}

// another keeps a snapshot or volume that was made in another storage, of which this one was a copy.
func (w *world) another(it Item, tags ebs.Tags) (Item, bool) {
	tag := tags[ebs.TagStorage]
	switch {
	case w.storage.Owns(tag):
		return it, false
	case tag == "":
		return it.verdict(ActionKeep, "this storage was a copy of %s, and which of them it is of is not known; delete it by hand if that is gone", w.storage.CopyOf), true
	}
	return it.verdict(ActionKeep, "it was made in storage %s, and this one is %s", tag, w.storage.ID), true
}
