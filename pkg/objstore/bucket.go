package objstore

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Bucket reads the settings of a store's bucket. No run needs them: the permissions to read them are optional.
type Bucket struct{ store *s3Store }

// BucketOf returns the bucket of a store in S3; false for any other store.
func BucketOf(s Store) (Bucket, bool) {
	store, ok := s.(*s3Store)
	return Bucket{store}, ok
}

// Name is the bucket's name.
func (b Bucket) Name() string { return b.store.bucket }

// Rule is what a lifecycle rule does to the store's objects.
type Rule struct {
	ID      string
	Expires bool // current versions are deleted
	// Archive is the storage class to which they are moved and from which they cannot be read at once; "" is none.
	Archive           string
	NoncurrentExpires bool
}

// ObjectLock is a bucket's Object Lock. A bucket may have one without a default retention.
type ObjectLock struct {
	Enabled bool
	Mode    string // of the default retention: GOVERNANCE or COMPLIANCE; "" is none
	Days    int
}

const daysPerYear = 365

// Versioning is "Enabled", "Suspended", or "" for a bucket that never had it.
func (b Bucket) Versioning(ctx context.Context) (string, error) {
	out, err := b.store.client.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &b.store.bucket})
	if err != nil {
		return "", explainS3(ctx, err, b.call("read versioning", "s3:GetBucketVersioning"))
	}
	return string(out.Status), nil
}

// Lifecycle lists the enabled rules that may apply to an object of the store.
func (b Bucket) Lifecycle(ctx context.Context) ([]Rule, error) {
	out, err := b.store.client.GetBucketLifecycleConfiguration(ctx,
		&s3.GetBucketLifecycleConfigurationInput{Bucket: &b.store.bucket})
	if err != nil {
		return nil, unset(explainS3(ctx, err, b.call("read lifecycle", "s3:GetLifecycleConfiguration")))
	}
	var rules []Rule
	for _, r := range out.Rules {
		if r.Status != types.ExpirationStatusEnabled || !b.concerns(r) {
			continue
		}
		rule := Rule{ID: aws.ToString(r.ID), NoncurrentExpires: r.NoncurrentVersionExpiration != nil}
		rule.Expires = r.Expiration != nil && (r.Expiration.Days != nil || r.Expiration.Date != nil)
		for _, t := range r.Transitions {
			if slices.Contains(archives(), t.StorageClass) {
				rule.Archive = string(t.StorageClass)
			}
		}
		rules = append(rules, rule)
	}
	return rules, nil
}

// archives are the storage classes whose objects have to be restored before they can be read.
func archives() []types.TransitionStorageClass {
	return []types.TransitionStorageClass{
		types.TransitionStorageClassGlacier, types.TransitionStorageClassDeepArchive,
	}
}

// concerns reports whether a rule may apply to an object of the store, none of which has a tag.
func (b Bucket) concerns(r types.LifecycleRule) bool {
	prefix := aws.ToString(r.Prefix) //nolint:staticcheck // deprecated, and still in use
	if f := r.Filter; f != nil {
		prefix = aws.ToString(f.Prefix)
		if f.And != nil {
			prefix = aws.ToString(f.And.Prefix)
		}
		if f.Tag != nil || f.And != nil && len(f.And.Tags) > 0 {
			return false
		}
	}
	return strings.HasPrefix(prefix, b.store.prefix) || strings.HasPrefix(b.store.prefix, prefix)
}

// ObjectLock reads the bucket's Object Lock.
func (b Bucket) ObjectLock(ctx context.Context) (ObjectLock, error) {
	out, err := b.store.client.GetObjectLockConfiguration(ctx,
		&s3.GetObjectLockConfigurationInput{Bucket: &b.store.bucket})
	if err != nil {
		return ObjectLock{}, unset(explainS3(ctx, err,
			b.call("read object lock", "s3:GetBucketObjectLockConfiguration")))
	}
	var lock ObjectLock
	if c := out.ObjectLockConfiguration; c != nil {
		lock.Enabled = c.ObjectLockEnabled == types.ObjectLockEnabledEnabled
		if c.Rule != nil && c.Rule.DefaultRetention != nil {
			d := c.Rule.DefaultRetention
			lock.Mode, lock.Days = string(d.Mode), int(aws.ToInt32(d.Days)+daysPerYear*aws.ToInt32(d.Years))
		}
	}
	return lock, nil
}

// Clock is the server's time, with a resolution of a second; zero if its answer has none.
func (b Bucket) Clock(ctx context.Context) (time.Time, error) {
	out, err := b.store.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
		Bucket: &b.store.bucket, Prefix: &b.store.prefix, MaxKeys: aws.Int32(1),
	})
	if err != nil {
		return time.Time{}, explainS3(ctx, err, b.call("read clock", "s3:ListBucket"))
	}
	at, _ := awsmiddleware.GetServerTime(out.ResultMetadata)
	return at, nil
}

func (b Bucket) call(op, action string) s3Call {
	return s3Call{op: op, action: action, bucket: b.store.bucket}
}

// unset is nil for a configuration that the bucket does not have.
func unset(err error) error {
	if failure.Is(err, failure.NotFound) && failure.HintOf(err) == "" {
		return nil
	}
	return err
}
