package restore

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/storage"
)

// openStorage finds out which storage this is. A copy may be restored from: that may be all that is left.
func (r *run) openStorage(ctx context.Context) (err error) {
	if r.storage, err = storage.Find(ctx, r.Store); err != nil {
		return err
	}
	r.storageID = r.storage.ID
	return nil
}

// begin gives a storage without one its identity: what the run writes and tags from now on carries it.
func (r *run) begin(ctx context.Context, about journal.About) (any, error) {
	if err := r.storage.ProveServer(ctx, r.Store, r.opts.Tool); err != nil {
		return nil, err
	}
	if err := r.storage.Establish(ctx, r.Store, ""); err != nil {
		return nil, err
	}
	r.storageID = r.storage.ID
	about.StorageID, about.Storage = r.storage.ID, r.storage.Here
	return about, nil
}

// checkStorage is openStorage for a dry run.
func (r *run) checkStorage(ctx context.Context, s *phase.Scope) error {
	_, unproven, err := storage.Check(ctx, r.Store, r.opts.Tool)
	if unproven != "" {
		s.Warn("%s", unproven)
	}
	return err
}

func (r *run) storageStep() phase.Step {
	return phase.Step{Phase: phaseData, Name: "storage", Deadline: 5 * time.Minute, Do: r.checkStorage, ReadOnly: true}
}

// sameStorage is a Conflict if a run whose journal is here was begun in another storage, of which this one is a copy. What its
// earlier processes made has the tag of then, or none.
func (r *run) sameStorage(was *journal.About) error {
	r.storageID = was.StorageID
	return r.storage.CheckRun(string(r.opts.Run), was.StorageID, was.Storage)
}
