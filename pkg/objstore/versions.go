package objstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tisnap/tisnap/pkg/failure"
)

// ObjectVersion is a version of an object, in a bucket that keeps what is replaced or deleted.
type ObjectVersion struct {
	Key      string
	ID       string
	Size     int64
	Modified time.Time
	Version  Version // as a read of it has it
	Latest   bool    // nothing was written or deleted since
	Marker   bool    // it is no object: the key was deleted
}

// Versions lists all versions of the objects whose key starts with prefix: by key, and of each key the objects, the
// newest first, and then the delete markers. A bucket that never had versions has one of each object.
func (b Bucket) Versions(ctx context.Context, prefix string) ([]ObjectVersion, error) {
	full := b.store.prefix + prefix
	var out []ObjectVersion
	for pages := s3.NewListObjectVersionsPaginator(b.store.client, &s3.ListObjectVersionsInput{
		Bucket: &b.store.bucket, Prefix: &full,
	}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, explainS3(ctx, err, b.call("list versions", "s3:ListBucketVersions"))
		}
		for _, v := range page.Versions {
			out = append(out, ObjectVersion{
				Key: strings.TrimPrefix(aws.ToString(v.Key), b.store.prefix), ID: aws.ToString(v.VersionId),
				Size: aws.ToInt64(v.Size), Modified: aws.ToTime(v.LastModified), Latest: aws.ToBool(v.IsLatest),
				Version: Version(aws.ToString(v.ETag)),
			})
		}
		for _, m := range page.DeleteMarkers {
			out = append(out, ObjectVersion{
				Key: strings.TrimPrefix(aws.ToString(m.Key), b.store.prefix), ID: aws.ToString(m.VersionId),
				Modified: aws.ToTime(m.LastModified), Latest: aws.ToBool(m.IsLatest), Marker: true,
			})
		}
	}
	slices.SortStableFunc(out, func(a, b ObjectVersion) int {
		if c := strings.Compare(a.Key, b.Key); c != 0 || a.Marker == b.Marker {
			return c
		}
		if a.Marker {
			return 1
		}
		return -1
	})
	return out, nil
}

// Get is Store.Get of a version of an object.
func (b Bucket) Get(ctx context.Context, key, version string) ([]byte, Version, error) {
	return b.store.read(ctx, key, &s3.GetObjectInput{ChecksumMode: types.ChecksumModeEnabled, VersionId: &version}, nil)
}

// GetRange is Store.GetRange of a version of an object.
func (b Bucket) GetRange(ctx context.Context, key, version string, offset int64, into []byte) error {
	return b.store.readRange(ctx, key, optional(version), offset, into)
}

// Remove deletes a version of an object, or a delete marker, for ever. One that is not there is a success, and one that
// Object Lock retains is Denied.
func (b Bucket) Remove(ctx context.Context, key, version string) error {
	if version == "" {
		return failure.New(failure.Usage, "delete version", key, "no version given")
	}
	full := b.store.prefix + key
	_, err := b.store.client.DeleteObject(ctx, &s3.DeleteObjectInput{
		Bucket: &b.store.bucket, Key: &full, VersionId: &version,
	})
	err = explainS3(ctx, err, b.callOf("delete version", "s3:DeleteObjectVersion", full))
	if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
		return nil
	}
	return err
}
