package prune_test

import (
	"context"
	"fmt"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repair"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/verify"
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

// damage changes the trailer of a pack: its blocks are sound still.
func (w *world) damage(pick int) {
	packs, err := w.store.List(w.t.Context(), format.PackPrefix)
	if err != nil || len(packs) == 0 {
		return
	}
	key := packs[pick%len(packs)].Key
	pack, version, err := w.store.Get(w.t.Context(), key)
	if err == nil {
		pack[len(pack)-20] ^= 1
		_, err = w.store.Replace(w.t.Context(), key, pack, version)
	}
	if err != nil {
		panic(err) // the store has no fault
	}
}

// repairAll repairs what is damaged in any archive.
func repairAll(ctx context.Context, r *repository.Repository) error {
	ids, err := r.Archives(ctx)
	if err != nil {
		return err
	}
	report, err := repair.Run(ctx, r, repair.Options{Options: verify.Options{Archives: ids, Level: verify.Headers, Reads: 1}})
	if err != nil {
		return err
	}
	for _, l := range report.Left {
		if len(l.Blocks) > 0 && l.Problem != repair.Overtaken {
			return fmt.Errorf("%s is left: %s", l.Object, l.Problem)
		}
	}
	return nil
}
