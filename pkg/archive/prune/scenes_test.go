package prune_test

import (
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/prune"
)

// begin makes what takes long to come about by chance: all that an archive refers to is condemned, since it was of a
// forgotten archive, while its writer had a lease.
func (w *world) begin() error {
	ctx := w.t.Context()
	if err := w.write(w.job(0), 0b11_11_00)(ctx, w.repo); err != nil {
		return err
	}
	a, err := w.repo.Archive(ctx, "archive-0")
	if err != nil {
		return err
	}
	if _, err := lease.Write(ctx, w.store, "older", "writer"); err != nil {
		return err
	}
	if err := prune.Forget(ctx, w.repo, "archive-0"); err != nil {
		return err
	}
	if _, err := prune.Run(ctx, w.repo, now()); err != nil {
		return err
	}
	if err := w.repo.Commit(ctx, "older", a); err != nil {
		return err
	}
	return lease.End(ctx, w.store, "older")
}

// beginUnused makes packs of which a half is unused: blocks of both volumes were replaced, and the base forgotten.
func (w *world) beginUnused() error {
	ctx := w.t.Context()
	for range 3 {
		if err := w.write(w.job(0), 0b11_11_11)(ctx, w.repo); err != nil {
			return err
		}
	}
	return prune.Forget(ctx, w.repo, "archive-0")
}
