package gc

import (
	"context"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/storage"
)

// openStorage finds out which storage this is. A copy of another is Unready, and nothing of it is looked at: it has the
// original's journals and backups, and what these name is in the original's use.
func (w *world) openStorage(ctx context.Context, d Deps) error {
	found, err := storage.Read(ctx, d.Store)
	if err != nil {
		return err
	}
	w.storage = *found
	return w.storage.RefuseCopy("delete")
}

// establish is for right before the first deletion: it proves that the storage's server keeps the locks, and writes
// down which storage this is. It is a Conflict if it has become another one since it was read.
func (w *world) establish(ctx context.Context, d Deps) error {
	found, err := storage.Open(ctx, d.Store, d.Tool)
	switch {
	case err != nil:
		return err
	case w.storage.ID != "" && found.ID != w.storage.ID:
		return failure.New(failure.Conflict, "delete", d.Store.URL(),
			"the storage's identity has changed from %s to %s meanwhile", w.storage.ID, found.ID).
			WithHint("run the same command again")
	}
	return found.RefuseCopy("delete")
}

// another keeps a snapshot or volume that was made in another storage, of which this one was a copy.
func (w *world) another(it Item, tags ebs.Tags) (Item, bool) {
	tag := tags[ebs.TagStorage]
	switch {
	case w.storage.Owns(tag):
		return it, false
	case tag == "":
		return it.verdict(ActionKeep,
			"this storage was a copy of %s, and which of them it is of is not known; delete it by hand if that is gone",
			w.storage.CopyOf), true
	}
	return it.verdict(ActionKeep, "it was made in storage %s, and this one is %s", tag, w.storage.ID), true
}
