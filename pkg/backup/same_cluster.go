package backup

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/storage"
)

// identify finds out which cluster of its name this is: no other's cut may be adopted, and none of its snapshots deleted.
func (r *run) identify(ctx context.Context) (err error) {
	r.clusterID, err = r.PD.ClusterID(ctx)
	return failure.Annotate(err, "read cluster id", r.opts.Cluster.String())
}

// openStorage finds out which storage this is. One that is a copy of another gets no backups: two would be in the same places.
func (r *run) openStorage(ctx context.Context) (err error) {
	if r.storage, err = storage.Find(ctx, r.Store); err != nil {
		return err
	}
	r.storageID = r.storage.ID
	return r.storage.RefuseCopy("back up")
}

// begin gives a storage without one its identity: what the run writes and tags from now on carries it.
func (r *run) begin(ctx context.Context) (any, error) {
	if err := r.storage.ProveServer(ctx, r.Store, r.opts.Tool); err != nil {
		return nil, err
	}
	if err := r.storage.Establish(ctx, r.Store, ""); err != nil {
		return nil, err
	}
	if err := r.storage.RefuseCopy("back up"); err != nil {
		return nil, err
	}
	r.storageID = r.storage.ID
	about := r.about()
	about.Region = r.EBS.Region()
	return about, nil
}

// checkStorage is openStorage for a dry run.
func (r *run) checkStorage(ctx context.Context, s *phase.Scope) error {
	found, unproven, err := storage.Check(ctx, r.Store, r.opts.Tool)
	if err != nil {
		return err
	}
	if unproven != "" {
		s.Warn("%s", unproven)
	}
	return found.RefuseCopy("back up")
}

// was is what the journal says of the run. It is a Conflict, before anything is adopted or undone, if that is known to be of
// another cluster of the same name. Older versions noted the cluster only with the proof of its cut.
func (r *run) was(h *phase.History) (journal.About, error) {
	was, err := journal.ReadAbout(r.opts.Run, h.Records[0])
	if err != nil {
		return was, err
	}
	if was.ClusterID == 0 {
		was.ClusterID = journal.ReadFacts(h.Records).Backup.ProvenOf
	}
	if err := r.storage.CheckRun(string(r.opts.Run), was.StorageID, was.Storage); err != nil {
		return was, err
	}
	r.storageID = was.StorageID // what an earlier process made has that tag, or none
	mine := r.about()
	_, err = was.SameCluster(r.opts.Run, &mine)
	return was, err
}

// location is where the run's storage is.
func (r *run) location() string {
	if r.storage == nil {
		return ""
	}
	return r.storage.Here
}
