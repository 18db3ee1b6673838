package repository

import (
	"context"
	"maps"
	"slices"
	"sync"

	"filippo.io/age"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// DefaultPackSize is the size at which a pack is closed, if init sets no other.
const DefaultPackSize = 32 << 20

// Repository is an unlocked repository. It is safe for concurrent use.
type Repository struct {
	store    objstore.Store
	kept     objstore.Store // for what is written once, or replaced by the same
	keys     *format.Keyring
	settings format.Settings
	readers  sync.Pool // of *reader
}

// Init creates a repository whose newest key the slots have. The caller finds out which conditional writes the storage
// honours (storage.Probe). A repository that is there already is a Conflict, and stays unchanged.
func Init(
	ctx context.Context, store objstore.Store, keys *format.Keyring, slots []format.Slot, settings format.Settings,
) (*Repository, error) {
	if settings.PackSize < format.MaxSealed || settings.PackSize > format.MaxPackSize/2 {
		return nil, failure.New(failure.Usage, "create repository", store.URL(), "packs of %d bytes are not %d to %d",
			settings.PackSize, format.MaxSealed, format.MaxPackSize/2)
	}
	text, err := format.EncodeRepository(keys, slots, settings)
	if err != nil {
		return nil, err
	}
	kept := keeping(store, settings)
	_, err = kept.Create(ctx, format.RepositoryPath, text)
	switch {
	case failure.Is(err, failure.Conflict):
		return nil, failure.New(failure.Conflict, "create repository", store.URL(), "there is one already").
			WithHint("use it, or create one below another prefix")
	case err != nil:
		return nil, failure.Annotate(err, "create repository", store.URL())
	}
	return &Repository{store: store, kept: kept, keys: keys, settings: settings}, nil
}

// Open unlocks the repository in a storage by any of the identities. A storage without one is NotFound; identities of
// none of its key slots are Denied.
func Open(ctx context.Context, store objstore.Store, identities ...age.Identity) (*Repository, error) {
	text, _, err := store.Get(ctx, format.RepositoryPath)
	if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
		return nil, failure.New(failure.NotFound, "open repository", store.URL(), "there is no %s",
			format.RepositoryPath).WithHint("correct the URL: %s is right below it", format.RepositoryPath)
	}
	if err != nil {
		return nil, failure.Annotate(err, "open repository", store.URL())
	}
	r, err := format.DecodeRepository(text)
	if err != nil {
		return nil, failure.Annotate(err, "open repository", store.URL())
	}
	keys, err := r.Unlock(ctx, identities...)
	if err != nil {
		return nil, failure.Annotate(err, "open repository", store.URL())
	}
	return &Repository{store: store, kept: keeping(store, r.Settings), keys: keys, settings: r.Settings}, nil
}

// ID is the repository's id, which commits to its key: a client that knows another one at this URL must not continue.
func (r *Repository) ID() format.RepositoryID { return r.keys.Repository() }

// Keys are the repository's.
func (r *Repository) Keys() *format.Keyring { return r.keys }

// Settings are those that init chose.
func (r *Repository) Settings() format.Settings { return r.settings }

// Objects is the storage that the repository is in, for leases and prunes.
func (r *Repository) Objects() objstore.Store { return r.store }

// PutPack writes a closed pack. Its name is random, so that an object of this name is a Conflict that is not to be
// repeated: the pack of another write of the same bytes, or a foreign one.
func (r *Repository) PutPack(ctx context.Context, name format.PackName, pack []byte) error {
	_, err := r.kept.Create(ctx, name.Path(), pack)
	return failure.Annotate(err, "write pack", name.String())
}

// PutSegment writes a map segment, and returns its name, which no other one ever had.
func (r *Repository) PutSegment(ctx context.Context, s format.Segment) (format.SegmentName, error) {
	name, object, err := s.SealUnique(r.keys)
	if err != nil {
		return name, err
	}
	_, err = r.kept.Create(ctx, name.Path(), object)
	return name, failure.Annotate(err, "write segment", name.String())
}

// Segment reads a map segment.
func (r *Repository) Segment(ctx context.Context, name format.SegmentName) (format.Segment, error) {
	object, _, err := r.store.Get(ctx, name.Path())
	s, err := r.openSegment(name, object, err)
	if !damagedOrGone(err) {
		return s, err
	}
	bucket, id, listErr := r.behind(ctx, name.Path())
	if listErr != nil {
		return nil, listErr
	}
	if id != "" {
		object, _, err = bucket.Get(ctx, name.Path(), id)
		s, err = r.openSegment(name, object, err)
	}
	return s, err
}

func (r *Repository) openSegment(name format.SegmentName, object []byte, err error) (format.Segment, error) {
	if err != nil {
		return nil, failure.Annotate(err, "read segment", name.String())
	}
	return format.OpenSegment(r.keys, name, object)
}

// damagedOrGone reports whether an error is of the object, and not of the way to it.
func damagedOrGone(err error) bool {
	return failure.Is(err, failure.Corrupt) || failure.Is(err, failure.NotFound) && failure.HintOf(err) == ""
}

// Commit writes an archive, which makes it one: all that it refers to is written. An id that is taken is a Conflict.
func (r *Repository) Commit(ctx context.Context, id string, a *format.Archive) error {
	path, err := format.ArchivePath(id)
	if err != nil {
		return err
	}
	object, err := a.Seal(r.keys, id)
	if err != nil {
		return err
	}
	_, err = r.kept.Create(ctx, path, object)
	return failure.Annotate(err, "commit archive", id)
}

// Archive reads an archive. One that was forgotten is NotFound.
func (r *Repository) Archive(ctx context.Context, id string) (*format.Archive, error) {
	a, _, err := r.ArchiveVersion(ctx, id)
	return a, err
}

// Archives lists the ids of all archives, sorted. Tombstones, and objects that cannot be an archive's, are left out.
func (r *Repository) Archives(ctx context.Context) ([]string, error) {
	versions, err := r.Versions(ctx)
	return slices.Sorted(maps.Keys(versions)), err
}
