package objstore

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/tisnap/tisnap/pkg/failure"
)

// The modes of a retention.
const (
	RetainGovernance = string(types.ObjectLockRetentionModeGovernance)
	RetainCompliance = string(types.ObjectLockRetentionModeCompliance)
)

// Retention is how long Object Lock keeps a version of an object from being deleted; the zero value is no retention.
type Retention struct {
	Mode  string
	Until time.Time
}

// covers reports whether r keeps a version for at least as long as wanted, and as strictly.
func (r Retention) covers(wanted Retention) bool {
	return !r.Until.Before(wanted.Until) && (r.Mode == RetainCompliance || r.Mode == wanted.Mode)
}

// Retention reads that of an object's newest version.
func (b Bucket) Retention(ctx context.Context, key string) (Retention, error) {
	full := b.store.prefix + key
	out, err := b.store.client.GetObjectRetention(ctx,
		&s3.GetObjectRetentionInput{Bucket: &b.store.bucket, Key: &full})
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "NoSuchObjectLockConfiguration" {
		return Retention{}, nil
	}
	if err != nil {
		return Retention{}, explainS3(ctx, err, b.callOf("read retention", "s3:GetObjectRetention", full))
	}
	if out.Retention == nil {
		return Retention{}, nil
	}
	return Retention{Mode: string(out.Retention.Mode), Until: aws.ToTime(out.Retention.RetainUntilDate)}, nil
}

// Retain keeps an object's newest version at least as long and as strictly as asked, and returns its retention. It
// never makes one shorter or weaker, and is idempotent. A later version of the object has none of it: S3 then shows
// that one, and keeps this one behind it.
func (b Bucket) Retain(ctx context.Context, key string, wanted Retention) (Retention, error) {
	if part := wanted.Until.Sub(wanted.Until.Truncate(time.Second)); part > 0 { // S3 keeps whole seconds
		wanted.Until = wanted.Until.Add(time.Second - part)
	}
	has, err := b.Retention(ctx, key)
	if err != nil || has.covers(wanted) {
		return has, err
	}
	if has.Mode == RetainCompliance {
		wanted.Mode = RetainCompliance
	}
	if has.Until.After(wanted.Until) {
		wanted.Until = has.Until
	}
	full := b.store.prefix + key
	_, err = b.store.client.PutObjectRetention(ctx, &s3.PutObjectRetentionInput{
		Bucket: &b.store.bucket, Key: &full,
		Retention: &types.ObjectLockRetention{
			Mode: types.ObjectLockRetentionMode(wanted.Mode), RetainUntilDate: &wanted.Until,
		},
	})
	if err != nil {
		return has, explainS3(ctx, err, b.callOf("retain object", "s3:PutObjectRetention", full))
	}
	got, err := b.Retention(ctx, key)
	if err == nil && !got.covers(wanted) {
		err = failure.New(failure.Conflict, "retain object", b.callOf("", "", full).target(),
			"it is retained in mode %q until %s, and should be in %s until %s", got.Mode,
			got.Until.UTC().Format(time.RFC3339), wanted.Mode, wanted.Until.UTC().Format(time.RFC3339)).
			WithHint("another process wrote the object or its retention meanwhile: run the command again")
	}
	return got, err
}

func (b Bucket) callOf(op, action, key string) s3Call {
	return s3Call{op: op, action: action, bucket: b.store.bucket, key: key}
}
