package repository

import (
	"bytes"
	"context"
	"strings"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Versions lists the current versions of the Archives' objects.
func (r *Repository) Versions(ctx context.Context) (map[string]objstore.Version, error) {
	objects, err := r.archives(ctx)
	if err != nil {
		return nil, failure.Annotate(err, "list archives", r.store.URL())
	}
	versions := map[string]objstore.Version{}
	for _, o := range objects {
		id := strings.TrimPrefix(o.Key, format.ArchivePrefix)
		path, err := format.ArchivePath(id)
		if err == nil && path == o.Key && o.Size != int64(len(format.Tombstone)) {
			versions[id] = o.Version
		}
	}
	return versions, nil
}

// archives lists the Archives' objects. One that others have deleted in a bucket with Object Lock is there.
func (r *Repository) archives(ctx context.Context) (objects []objstore.Object, err error) {
	bucket, is := r.lockable()
	if !is {
		return r.store.List(ctx, format.ArchivePrefix)
	}
	last, err := LastVersions(ctx, bucket, format.ArchivePrefix)
	if failure.Is(err, failure.Denied) { // a restore need not have that permission; a prune does
		return r.store.List(ctx, format.ArchivePrefix)
	}
	for key, v := range last {
		objects = append(objects, objstore.Object{Key: key, Size: v.Size, Version: v.Version})
	}
	return objects, err
}

// ArchiveVersion is Archive, with the version of its object.
func (r *Repository) ArchiveVersion(ctx context.Context, id string) (*format.Archive, objstore.Version, error) {
	path, err := format.ArchivePath(id)
	if err != nil {
		return nil, "", err
	}
	object, version, err := r.store.Get(ctx, path)
	if bucket, is := r.lockable(); is && failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
		last, listErr := LastVersions(ctx, bucket, path)
		if v, is := last[path]; is {
			object, version, err = bucket.Get(ctx, path, v.ID)
		} else if listErr != nil && !failure.Is(listErr, failure.Denied) {
			err = listErr
		}
	}
	if err != nil {
		return nil, "", failure.Annotate(err, "read archive", id)
	}
	if string(object) == format.Tombstone {
		return nil, "", failure.New(failure.NotFound, "read archive", id, "it was forgotten, or its run was stopped")
	}
	a, err := format.OpenArchive(r.keys, id, object)
	return a, version, err
}

// Recommit replaces a version of an archive, by one that restores the same: all that it refers to is written. Another
// current version, as after the archive was forgotten, is a Conflict. One that others have deleted is there again.
func (r *Repository) Recommit(
	ctx context.Context, id string, a *format.Archive, old objstore.Version,
) (objstore.Version, error) {
	path, err := format.ArchivePath(id)
	if err != nil {
		return "", err
	}
	object, err := a.Seal(r.keys, id)
	if err != nil {
		return "", err
	}
	version, err := r.kept.Replace(ctx, path, object, old)
	if bucket, is := r.lockable(); is && failure.Is(err, failure.Conflict) {
		if last, listErr := LastVersions(ctx, bucket, path); listErr == nil && last[path].Version == old {
			version, err = r.kept.Create(ctx, path, object)
		}
	}
	if err != nil { // it may have happened
		if is, v, readErr := r.store.Get(ctx, path); readErr == nil && bytes.Equal(is, object) {
			version, err = v, nil
		}
	}
	return version, failure.Annotate(err, "commit archive", id)
}

// swaps is how often an archive is sealed again because others replaced it meanwhile.
const swaps = 10

// SealAgain gives each archive that there is another version, with the same content.
func (r *Repository) SealAgain(ctx context.Context) error {
	ids, err := r.Archives(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		for try := 1; ; try++ {
			a, version, err := r.ArchiveVersion(ctx, id)
			if err == nil {
				_, err = r.Recommit(ctx, id, a, version)
			}
			if failure.Is(err, failure.Conflict) && try < swaps {
				continue // who replaced it may do so again
			}
			if err != nil && !(failure.Is(err, failure.NotFound) && failure.HintOf(err) == "") {
				return err
			}
			break
		}
	}
	return nil
}
