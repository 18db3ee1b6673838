package repository

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Stored is a pack or a segment in the storage.
type Stored struct {
	objstore.Object
	ID     string // of its version; "" in a storage that keeps none
	Hidden bool   // reads find another version, or none: a delete marker
}

// Versioned returns the repository's bucket if it keeps versions: what is deleted by its key alone stays there. Without
// the permission to read that, or an S3 that has it, it counts as one that does not.
func (r *Repository) Versioned(ctx context.Context) (b objstore.Bucket, is bool, err error) {
	b, inS3 := objstore.BucketOf(r.store)
	if !inS3 || r.settings.Storage.ObjectLock {
		return b, inS3, nil
	}
	status, err := b.Versioning(ctx)
	if failure.Is(err, failure.Denied) || failure.Is(err, failure.Usage) { // not granted, or not known to the server
		return b, false, nil
	}
	return b, status != "", err
}

// Stored lists the packs or segments whose key starts with prefix: in a bucket that keeps versions the first one of
// each, which is the repository's, since a name is never used again.
func (r *Repository) Stored(ctx context.Context, prefix string, versions bool) (out []Stored, err error) {
	bucket, inS3 := objstore.BucketOf(r.store)
	if !versions || !inS3 {
		objects, err := r.store.List(ctx, prefix)
		for _, o := range objects {
			out = append(out, Stored{Object: o})
		}
		return out, err
	}
	all, err := bucket.Versions(ctx, prefix)
	for _, v := range all { // the newest of each key first
		if v.Marker {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Key == v.Key {
			out = out[:n-1]
		}
		out = append(out, Stored{
			Object: objstore.Object{Key: v.Key, Size: v.Size, Modified: v.Modified, Version: v.Version}, ID: v.ID,
			Hidden: !v.Latest,
		})
	}
	return out, err
}
