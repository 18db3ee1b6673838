package runs

import (
	"context"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// Since lists the runs that began at or after a time, without listing older ones: a storage may hold years of journals.
// It goes by the ids, which have the time in them. Ids that a user chose do not: those that begin with a letter are
// always listed, those that begin with a digit where they sort. So it may miss a run; use All where that matters.
func Since(ctx context.Context, store objstore.Store, at time.Time) ([]Found, error) {
	objects, err := store.ListAfter(ctx, manifest.RunsPrefix, manifest.RunsPrefix+string(journal.FirstRunID(at)))
	if err != nil {
		return nil, failure.Annotate(err, "list runs", store.URL())
	}
	return byRun(objects), nil
}

// maxSkew is how far a run's clock may be ahead of its successors'.
const maxSkew = time.Hour

// Resolves reads the restores and resolves of a cluster and backup that began after a time, or at most an hour before
// it, newest first. Of all other runs since then it reads only the first record.
func Resolves(
	ctx context.Context, store objstore.Store, name cluster.Name, backup cluster.BackupID, at time.Time,
) ([]Run, error) {
	found, err := Since(ctx, store, at.Add(-maxSkew))
	if err != nil {
		return nil, err
	}
	return readOnly(ctx, store, found, func(a *journal.About) bool {
		resolves := a.Operation == journal.Resolve || a.Operation == journal.Restore
		return resolves && a.Cluster == name && a.Backup == backup
	})
}

// Copies reads the runs that copied backups into the storage, newest first. Of all other runs it reads only the first
// record.
func Copies(ctx context.Context, store objstore.Store) ([]Run, error) {
	found, err := All(ctx, store)
	if err != nil {
		return nil, err
	}
	return readOnly(ctx, store, found, func(a *journal.About) bool { return a.Operation == journal.Copy })
}

// readOnly reads the runs that are wanted, newest first. A journal that cannot be decoded, or is deleted meanwhile,
// proves nothing, and is left out.
func readOnly(
	ctx context.Context, store objstore.Store, found []Found, wanted func(*journal.About) bool,
) ([]Run, error) {
	read := make([]*Run, len(found))
	err := parallel.Each(ctx, maxReaders, found, func(ctx context.Context, i int, f Found) error {
		about, err := aboutOf(ctx, store, f.ID)
		if err == nil && wanted(about) {
			read[i], err = readJournal(ctx, store, f.ID)
		}
		if failure.Is(err, failure.NotFound) || failure.Is(err, failure.Corrupt) {
			return nil
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	var out []Run
	for _, r := range read {
		if r != nil {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, newestFirst)
	return out, nil
}

// aboutOf reads a journal's first record, which exists even if the rest is compacted.
func aboutOf(ctx context.Context, store objstore.Store, id cluster.RunID) (*journal.About, error) {
	first, err := journal.NewStoreJournal(store, manifest.JournalPrefix(id)).First(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "read run", string(id))
	}
	about, err := journal.ReadAbout(id, *first)
	return &about, err
}
