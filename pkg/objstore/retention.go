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

// Retention reads that of a version of an object; "" is the newest one.
func (b Bucket) Retention(ctx context.Context, key, version string) (Retention, error) {
	full := b.store.prefix + key
	out, err := b.store.client.GetObjectRetention(ctx,
		&s3.GetObjectRetentionInput{Bucket: &b.store.bucket, Key: &full, VersionId: optional(version)})
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

// wholeSeconds is the first whole second that is not before t: S3 keeps no parts.
func wholeSeconds(t time.Time) time.Time {
	if part := t.Sub(t.Truncate(time.Second)); part > 0 {
		t = t.Add(time.Second - part)
	}
	return t
}

// Retain keeps a version of an object, "" being the newest one, at least as long and as strictly as asked, and returns
// its retention. It never makes one shorter or weaker, and is idempotent. A later version of the object has none of it:
// S3 then shows that one, and keeps this one behind it.
func (b Bucket) Retain(ctx context.Context, key, version string, wanted Retention) (Retention, error) {
	wanted.Until = wholeSeconds(wanted.Until)
	has, err := b.Retention(ctx, key, version)
	if err != nil || has.covers(wanted) {
		return has, err
	}
	if has.Mode == RetainCompliance {
		wanted.Mode = RetainCompliance
	}
	if has.Until.After(wanted.Until) {
		wanted.Until = has.Until
	}
	if err := b.putRetention(ctx, key, version, wanted); err != nil {
		return has, err
	}
	got, err := b.Retention(ctx, key, version)
	if err == nil && !got.covers(wanted) {
		err = failure.New(failure.Conflict, "retain object", b.callOf("", "", b.store.prefix+key).target(),
			"it is retained in mode %q until %s, and should be in %s until %s", got.Mode,
			got.Until.UTC().Format(time.RFC3339), wanted.Mode, wanted.Until.UTC().Format(time.RFC3339)).
			WithHint("another process wrote the object or its retention meanwhile: run the command again")
	}
	return got, err
}

// Extend is Retain in one request, if S3 takes that for longer than what the version has.
func (b Bucket) Extend(ctx context.Context, key, version string, wanted Retention) error {
	wanted.Until = wholeSeconds(wanted.Until)
	err := b.putRetention(ctx, key, version, wanted)
	if failure.Is(err, failure.Denied) { // as anything shorter or weaker is
		if _, retainErr := b.Retain(ctx, key, version, wanted); retainErr == nil {
			return nil
		}
	}
	return err
}

func (b Bucket) putRetention(ctx context.Context, key, version string, wanted Retention) error {
	full := b.store.prefix + key
	_, err := b.store.client.PutObjectRetention(ctx, &s3.PutObjectRetentionInput{
		Bucket: &b.store.bucket, Key: &full, VersionId: optional(version),
		Retention: &types.ObjectLockRetention{
			Mode: types.ObjectLockRetentionMode(wanted.Mode), RetainUntilDate: &wanted.Until,
		},
	})
	return explainS3(ctx, err, b.callOf("retain object", "s3:PutObjectRetention", full))
}

// optional is nil for "".
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// Retaining is the store, with a retention of each object that it writes from its write on, for so long by this
// machine's clock.
func (b Bucket) Retaining(mode string, period time.Duration) Store {
	s := *b.store
	s.retain = func() Retention { return Retention{mode, wholeSeconds(time.Now().UTC().Add(period))} }
	return &s
}

func (b Bucket) callOf(op, action, key string) s3Call {
	return s3Call{op: op, action: action, bucket: b.store.bucket, key: key}
}
