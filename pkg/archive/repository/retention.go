package repository

import (
	"github.com/tisnap/tisnap/pkg/archive/format"
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
