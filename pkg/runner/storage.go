package runner

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/storage"
)

// StorageID is the storage identity with which the run tags what it makes; "" if an older version began the run.
func (r *Runner) StorageID() string { return r.storageID }

// openStorage reads the storage's identity.
func (r *Runner) openStorage(ctx context.Context) (err error) {
	if r.storage, err = storage.Find(ctx, r.cfg.Store); err != nil {
		return err
	}
	r.storageID = r.storage.ID
	return r.refuseCopy(r.storage)
}

// refuseCopy returns Unready in a copy of a storage, if the run must not be there.
func (r *Runner) refuseCopy(found *storage.Storage) error {
	if r.cfg.NoCopy == "" {
		return nil
	}
	return found.RefuseCopy(r.cfg.NoCopy)
}

// begin gives the storage an identity if it has none: the run writes and tags with it from now on.
func (r *Runner) begin(ctx context.Context, about func() journal.About) (any, error) {
	if err := r.storage.ProveServer(ctx, r.cfg.Store, r.cfg.Tool); err != nil {
		return nil, err
	}
	if err := r.storage.Establish(ctx, r.cfg.Store, ""); err != nil {
		return nil, err
	}
	if err := r.refuseCopy(r.storage); err != nil {
		return nil, err
	}
	r.storageID = r.storage.ID
	return r.about(about), nil
}

// about is the journal's description of the run.
func (r *Runner) about(of func() journal.About) journal.About {
	about := of()
	about.Cluster, about.Tool = r.cfg.Cluster, r.cfg.Tool
	about.StorageID, about.Storage = r.storageID, r.storage.Here
	return about
}

// StorageStep checks the storage as a run does, for a dry run: it writes an object and deletes it again.
func (r *Runner) StorageStep(in string) phase.Step {
	return phase.Step{
		Phase: in, Name: "storage", Deadline: 5 * time.Minute, ReadOnly: true, Retry: true, Do: r.checkStorage,
	}
}

func (r *Runner) checkStorage(ctx context.Context, _ *phase.Scope) error {
	found, err := storage.Check(ctx, r.cfg.Store)
	if err != nil {
		return err
	}
	return r.refuseCopy(found)
}
