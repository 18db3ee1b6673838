package repository

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// keeping is the store for what Object Lock keeps. A copy of a repository outside S3 has none.
func keeping(store objstore.Store, s format.Settings) objstore.Store {
	bucket, inS3 := objstore.BucketOf(store)
	if !inS3 || s.Retention == (format.Retention{}) {
		return store
	}
	return bucket.Retaining(s.Retention.Mode, s.Retention.Period())
}

// LockedUntil is until when Object Lock keeps an archive, and all that it uses, in a repository with a retention; zero
// is unknown. What it shares with earlier archives is retained since a prune did that.
func (r *Repository) LockedUntil(ctx context.Context, id string) (time.Time, error) {
	bucket, inS3 := objstore.BucketOf(r.store)
	path, err := format.ArchivePath(id)
	if err != nil || !inS3 || r.settings.Retention.Days == 0 {
		return time.Time{}, err
	}
	all, err := r.Retained(ctx)
	if err != nil || all.IsZero() {
		return time.Time{}, err
	}
	kept, err := bucket.Retention(ctx, path, "")
	if all.Before(kept.Until) {
		kept.Until = all
	}
	return kept.Until, failure.Annotate(err, "read retention", id)
}

// Retained is until when prunes have retained all that was in use, or zero: what was not written since is retained so
// long at least.
func (r *Repository) Retained(ctx context.Context) (time.Time, error) {
	object, _, err := r.store.Get(ctx, format.RetainedPath)
	if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
		return time.Time{}, nil
	}
	return r.keys.OpenRetained(object), failure.Annotate(err, "read retention", r.store.URL())
}

// SetRetained replaces the time of Retained. Of two at the same time one is kept.
func (r *Repository) SetRetained(ctx context.Context, until time.Time) error {
	object, err := r.keys.SealRetained(until)
	if err != nil {
		return err
	}
	_, version, err := r.store.Get(ctx, format.RetainedPath)
	switch {
	case failure.Is(err, failure.NotFound) && failure.HintOf(err) == "":
		_, err = r.store.Create(ctx, format.RetainedPath, object)
	case err == nil:
		_, err = r.store.Replace(ctx, format.RetainedPath, object, version)
	}
	if failure.Is(err, failure.Conflict) {
		return nil
	}
	return failure.Annotate(err, "record retention", r.store.URL())
}
