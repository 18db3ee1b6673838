package importer

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/units"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// commit writes the archive, or finds that an earlier try did.
func (r *run) commit(ctx context.Context, _ *phase.Scope) error {
	a := &format.Archive{
		Backup: r.opts.Name, Created: r.result.Started, Base: r.result.Base, Manifest: format.NewManifest(nil),
	}
	for i, v := range r.made {
		id := uint64(r.works[i].Store)
		at := slices.IndexFunc(a.Stores, func(s format.Store) bool { return s.ID == id })
		if at < 0 {
			at = len(a.Stores)
			a.Stores = append(a.Stores, format.Store{ID: id})
		}
		a.Stores[at].Volumes = append(a.Stores[at].Volumes, v)
	}
	err := r.Repository.Commit(ctx, r.result.Archive, a)
	if failure.Is(err, failure.Conflict) {
		there, readErr := r.Repository.Archive(ctx, r.result.Archive)
		switch {
		case failure.Is(readErr, failure.NotFound):
			return failure.New(failure.Conflict, "commit archive", r.result.Archive,
				"a prune broke its lease, or it was forgotten: it cannot be committed any more").
				WithHint("run the same command again, which starts from scratch")
		case readErr != nil:
			return readErr
		case there.Created.Equal(a.Created) && there.Maps() == a.Maps():
			err = nil
		}
	}
	if err != nil {
		return err
	}
	r.result.Committed = true
	return r.end(ctx, r.result.Archive)
}

// end ends what is left of the making of an archive that is committed, or never will be. Who may not delete leaves that
// to the next prune.
func (r *run) end(ctx context.Context, archive string) error {
	err := lease.End(ctx, r.Repository.Objects(), archive)
	if err == nil {
		err = units.Of(r.Repository, archive).Remove(ctx)
	}
	if failure.Is(err, failure.Denied) {
		r.Log.Info("the next prune ends the lease", zap.Error(err))
		return nil
	}
	return err
}
