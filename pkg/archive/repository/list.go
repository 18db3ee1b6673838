package repository

import (
	"context"
	"slices"
	"strings"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// Latest refers to the newest archive.
const Latest = "latest"

// listReads is how many archives List reads at the same time.
const listReads = 16

// Entry is an archive in a listing.
type Entry struct {
	ID string
	// Archive is without the manifest's data and the volumes' maps, which may be large; nil if it cannot be read.
	Archive *format.Archive
	Maps    format.Digest // of the volumes; see Verified
	Err     error         // why it cannot be read
}

// List reads all archives, oldest first. Those that cannot be read, because they are damaged or of a newer format, come
// first. An archive that is deleted meanwhile is left out.
func (r *Repository) List(ctx context.Context) ([]Entry, error) {
	ids, err := r.Archives(ctx)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(ids))
	err = parallel.Each(ctx, listReads, ids, func(ctx context.Context, i int, id string) error {
		a, err := r.Archive(ctx, id)
		switch {
		case failure.Is(err, failure.NotFound):
		case failure.Is(err, failure.Corrupt) || failure.Is(err, failure.Usage):
			entries[i] = Entry{ID: id, Err: err}
		case err != nil:
			return err
		default:
			maps := a.Maps()
			a.Manifest.Data = nil
			for _, s := range a.Stores {
				for i := range s.Volumes {
					s.Volumes[i].Segments = nil
				}
			}
			entries[i] = Entry{ID: id, Archive: a, Maps: maps}
		}
		return nil
	})
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.ID == "" })
	slices.SortStableFunc(entries, func(a, b Entry) int { return compare(a.Archive, b.Archive) })
	return entries, err
}

func compare(a, b *format.Archive) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return a.Created.Compare(b.Created)
}

// Find reads the archive that a reference means: an id, the name of a backup, the beginning of one id, or Latest. None
// is NotFound, and a reference that may mean several is Usage. With an archive that cannot be read, which one is the
// latest could not be determined: Corrupt.
func (r *Repository) Find(ctx context.Context, ref string) (id string, a *format.Archive, err error) {
	if _, err := format.ArchivePath(ref); err == nil {
		a, err := r.Archive(ctx, ref)
		if !failure.Is(err, failure.NotFound) {
			return ref, a, err
		}
	}
	entries, err := r.List(ctx)
	if err != nil {
		return "", nil, err
	}
	if id, err = choose(entries, ref); err != nil {
		return "", nil, failure.Annotate(err, "find archive", ref)
	}
	a, err = r.Archive(ctx, id)
	return id, a, err
}

// choose returns the id of the archive that a reference means, which is no archive's id.
func choose(entries []Entry, ref string) (string, error) {
	if ref == Latest && len(entries) > 0 {
		if broken := entries[0]; broken.Err != nil {
			return "", failure.New(failure.Corrupt, "", "",
				"archive %s cannot be read, so which is the latest could not be determined: %w", broken.ID, broken.Err).
				WithHint("name the archive")
		}
		return entries[len(entries)-1].ID, nil
	}
	for _, means := range []func(Entry) bool{
		func(e Entry) bool { return e.Archive != nil && e.Archive.Backup == ref },
		func(e Entry) bool { return ref != "" && strings.HasPrefix(e.ID, ref) },
	} {
		var ids []string
		for _, e := range entries {
			if means(e) {
				ids = append(ids, e.ID)
			}
		}
		switch len(ids) {
		case 0:
		case 1:
			return ids[0], nil
		default:
			return "", failure.New(failure.Usage, "", "", "it may mean %d archives: %s", len(ids), failure.List(ids)).
				WithHint("give the whole id of one")
		}
	}
	return "", failure.New(failure.NotFound, "", "", "no such archive").WithHint("see `tisnap archive list`")
}
