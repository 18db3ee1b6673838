package gc

import (
	"context"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/storage"
)

// openStorage determines which storage this is. A copy of another one is Unready and not examined: its journals and
// backups name resources that the original uses.
func (w *world) openStorage(ctx context.Context, d Deps) error {
	found, err := storage.Read(ctx, d.Store)
	if err != nil {
		return err
	}
	w.storage = *found
	return w.storage.RefuseCopy("delete")
}

// establish is called right before the first deletion: it proves that the storage's server honours locks, and records
// the storage's identity. It returns a Conflict if the identity has changed since it was read.
func (w *world) establish(ctx context.Context, d Deps) error {
	found, err := storage.Open(ctx, d.Store, d.Tool)
	switch {
	case err != nil:
		return err
	case w.storage.ID != "" && found.ID != w.storage.ID:
		return failure.New(failure.Conflict, "delete", d.Store.URL(),
			"the storage's identity has since changed from %s to %s", w.storage.ID, found.ID).
			WithHint("run the same command again")
	}
	return found.RefuseCopy("delete")
}

// another keeps a snapshot or volume made in the storage that this one was copied from.
func (w *world) another(it Item, tags ebs.Tags) (Item, bool) {
	tag := tags[ebs.TagStorage]
	switch {
	case w.storage.Owns(tag):
		return it, false
	case tag == "":
		return it.decided(ActionKeep,
			"this storage was copied from %s, and it may belong to either; delete it by hand if that storage is gone",
			w.storage.CopyOf), true
	}
	return it.decided(ActionKeep, "it was made in storage %s, and this one is %s", tag, w.storage.ID), true
}
