package runner

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/storage"
)

// StorageID is the identity that what the run makes is tagged with; "" in a run that an older version began.
func (r *Runner) StorageID() string { return r.storageID }

// openStorage finds out which storage this is.
func (r *Runner) openStorage(ctx context.Context) (err error) {
	if r.storage, err = storage.Find(ctx, r.cfg.Store); err != nil {
		return err
	}
	r.storageID = r.storage.ID
	return r.refuseCopy(r.storage)
}

// refuseCopy is Unready in a copy, for a run that must not be there.
func (r *Runner) refuseCopy(found *storage.Storage) error {
	if r.cfg.NoCopy == "" {
		return nil
	}
	return found.RefuseCopy(r.cfg.NoCopy)
}

// begin gives a storage without one its identity: what the run writes and tags from now on carries it.
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

// about is what the journal has of the run.
func (r *Runner) about(of func() journal.About) journal.About {
	about := of()
	about.Cluster, about.Tool = r.cfg.Cluster, r.cfg.Tool
	about.StorageID, about.Storage = r.storageID, r.storage.Here
	return about
}

// StorageStep looks at the storage as a run does, and changes nothing: for a dry run.
func (r *Runner) StorageStep(in string) phase.Step {
	return phase.Step{
		Phase: in, Name: "storage", Deadline: 5 * time.Minute, ReadOnly: true, Retry: true, Do: r.checkStorage,
	}
}

func (r *Runner) checkStorage(ctx context.Context, s *phase.Scope) error {
	found, unproven, err := storage.Check(ctx, r.cfg.Store, r.cfg.Tool)
	if err != nil {
		return err
	}
	if unproven != "" {
		s.Warn("%s", unproven)
	}
	return r.refuseCopy(found)
}
