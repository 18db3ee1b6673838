package repository

import (
	"context"
	"fmt"
	"sync"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/parallel"
)

// lockable returns the repository's bucket if it has Object Lock: whatever others delete or overwrite there is behind a
// delete marker or another version.
func (r *Repository) lockable() (objstore.Bucket, bool) {
	bucket, inS3 := objstore.BucketOf(r.store)
	return bucket, inS3 && r.settings.Storage.ObjectLock
}

// behind returns the version of a pack or a segment that the repository wrote, if reads find another one or none; "" if
// they find it, or there is none, or looking for it is not permitted.
func (r *Repository) behind(ctx context.Context, key string) (bucket objstore.Bucket, id string, err error) {
	bucket, is := r.lockable()
	if !is {
		return bucket, "", nil
	}
	found, err := r.Stored(ctx, key, true)
	if failure.Is(err, failure.Denied) { // it remains damaged or missing
		err = nil
	}
	for _, o := range found {
		if o.Key == key && o.Hidden {
			id = o.ID
		}
	}
	return bucket, id, failure.Annotate(err, "list versions", key)
}

// LastVersions returns the newest version of each object whose key begins with prefix, by the key. One of an archive is
// behind a delete marker if others have deleted it: the repository never does.
func LastVersions(
	ctx context.Context, bucket objstore.Bucket, prefix string,
) (map[string]objstore.ObjectVersion, error) {
	all, err := bucket.Versions(ctx, prefix)
	last := map[string]objstore.ObjectVersion{}
	for _, v := range all {
		if _, is := last[v.Key]; !is && !v.Marker {
			last[v.Key] = v
		}
	}
	return last, err
}

// Hidden are the keys of packs, segments and archives that others have deleted or overwritten, and that Object Lock has
// kept behind that. Reads find them there.
func (r *Repository) Hidden(ctx context.Context) (map[string]bool, error) {
	hidden := map[string]bool{}
	bucket, is := r.lockable()
	if !is {
		return hidden, nil
	}
	var prefixes []string // a 256th of each at a time: there may be millions
	for i := range 256 {
		prefixes = append(prefixes, fmt.Sprintf("%s%02x", format.PackPrefix, i),
			fmt.Sprintf("%s%02x", format.SegmentPrefix, i))
	}
	var mu sync.Mutex
	err := parallel.Each(ctx, packLists, prefixes, func(ctx context.Context, _ int, prefix string) error {
		stored, err := r.Stored(ctx, prefix, true)
		mu.Lock()
		defer mu.Unlock()
		for _, o := range stored {
			if o.Hidden {
				hidden[o.Key] = true
			}
		}
		return failure.Annotate(err, "list objects", prefix)
	})
	if err != nil {
		return nil, err
	}
	last, err := LastVersions(ctx, bucket, format.ArchivePrefix)
	for key, v := range last {
		if !v.Latest && v.Size != int64(len(format.Tombstone)) {
			hidden[key] = true
		}
	}
	return hidden, failure.Annotate(err, "list objects", format.ArchivePrefix)
}
