package lockset

import (
	"context"
	"time"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
)

// Objects is what keeps the backup's own objects, without which its snapshots are only disks.
type Objects struct {
	// Kept are those that Object Lock keeps until the date, or would keep, by their keys in the storage.
	Kept []string `json:"kept,omitempty"`
	// Mode is GOVERNANCE or COMPLIANCE, and Until when they may be deleted at the earliest.
	Mode  string    `json:"mode,omitempty"`
	Until time.Time `json:"until,omitzero"`
	// Unkept is why none is kept: the bucket has no Object Lock, or could not be asked.
	Unkept string `json:"unkept,omitempty"`
}

// bucketOf returns the bucket of a storage if it has Object Lock; otherwise why its objects cannot be kept.
func bucketOf(ctx context.Context, store objstore.Store) (b objstore.Bucket, unkept string) {
	b, isS3 := objstore.BucketOf(store)
	if !isS3 {
		return b, "the storage is not in S3"
	}
	lock, err := b.ObjectLock(ctx)
	switch {
	case err != nil:
		return b, "the bucket's Object Lock could not be read: " + failure.Line(err.Error())
	case !lock.Enabled:
		return b, "the bucket has no Object Lock"
	}
	return b, ""
}

// retention is Object Lock's that goes with a lock of snapshots. It has no cool-off: a lock that can still be removed
// goes with governance mode.
func (o Options) retention() objstore.Retention {
	r := objstore.Retention{Mode: objstore.RetainGovernance, Until: o.Until}
	if o.Mode == ebs.LockCompliance && o.CoolOff == 0 {
		r.Mode = objstore.RetainCompliance
	}
	return r
}

// retain keeps the manifest, the marks, the seal and a copy's signed source for as long as the snapshots, if the bucket
// can. An error is Partial, since the snapshots are locked.
func retain(ctx context.Context, store objstore.Store, m *manifest.Manifest, o Options) (Objects, error) {
	bucket, unkept := bucketOf(ctx, store)
	if unkept != "" {
		return Objects{Unkept: unkept}, nil
	}
	keys := []string{manifest.ManifestKey(m.ID), manifest.SealKey(m.ID)}
	if m.Marks != nil {
		keys = append(keys, manifest.MarksKey(m.ID))
	}
	if m.CopyOf.FirstSigned() != nil {
		document, signature := manifest.OriginKeys(m.ID)
		keys = append(keys, document, signature)
	}
	wanted := o.retention()
	out := Objects{Mode: wanted.Mode, Until: wanted.Until}
	if o.DryRun {
		out.Kept = keys
		return out, nil
	}
	for _, key := range keys {
		got, err := bucket.Retain(ctx, key, "", wanted)
		if err != nil {
			return out, failure.New(failure.Partial, "retain object", key,
				"the snapshots are locked, and %d of %d objects are kept: %w", len(out.Kept), len(keys), err).
				WithHint("%s", failure.HintOf(err))
		}
		out.Kept = append(out.Kept, key)
		if got.Mode != wanted.Mode {
			out.Mode = got.Mode
		}
	}
	return out, nil
}
