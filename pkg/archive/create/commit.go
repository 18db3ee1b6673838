package create

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

// commit writes the archive, or finds that an earlier process or try of the run did.
func (r *run) commit(ctx context.Context, _ *phase.Scope) error {
	a := &format.Archive{
		Backup: string(r.manifest.ID), BackupTS: uint64(r.manifest.BackupTS),
		Cluster: r.manifest.Source.Cluster.String(), Created: r.choice.Created,
		Base: r.choice.Base, Manifest: format.NewManifest(r.document),
	}
	for i, v := range r.archived.Maps {
		id := uint64(r.works[i].Store)
		at := slices.IndexFunc(a.Stores, func(s format.Store) bool { return s.ID == id })
		if at < 0 {
			at = len(a.Stores)
			a.Stores = append(a.Stores, format.Store{ID: id})
		}
		a.Stores[at].Volumes = append(a.Stores[at].Volumes, v)
	}
	err := r.Repository.Commit(ctx, r.choice.Archive, a)
	if failure.Is(err, failure.Conflict) {
		there, readErr := r.Repository.Archive(ctx, r.choice.Archive)
		if failure.Is(readErr, failure.NotFound) {
			return failure.New(failure.Conflict, "commit archive", r.choice.Archive,
				"a prune broke its lease, or it was forgotten: it cannot be committed any more").
				WithHint("run the same command again, which starts from scratch")
		}
		if readErr != nil {
			return readErr
		}
		if there.Created.Equal(a.Created) && there.Manifest.SHA256 == a.Manifest.SHA256 {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	return r.committed(ctx, nil)
}

// committed ends the lease, and fills in the result. Who may not delete leaves that to the next prune.
func (r *run) committed(ctx context.Context, _ *phase.Scope) error {
	err := lease.End(ctx, r.Repository.Objects(), r.choice.Archive)
	if err == nil && r.opts.Shared {
		err = units.Of(r.Repository, r.choice.Archive).Remove(ctx)
	}
	if failure.Is(err, failure.Denied) {
		r.Log.Info("the next prune ends the lease", zap.Error(err))
	} else if err != nil {
		return err
	}
	r.result.Committed = true
	r.result.Volumes, r.result.Spent = r.archived.Volumes, r.archived.Spent
	return nil
}
