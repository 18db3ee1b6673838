package lockset_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// inBucket moves the backup into a bucket, and returns it.
func (p *place) inBucket(t *testing.T, faults *fault.Plan) (*objstoretest.Server, objstore.Bucket) {
	t.Helper()
	server := objstoretest.New(objstoretest.Config{Faults: faults})
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	server.CreateBucket("backups")
	store, err := objstore.Open(t.Context(), "s3://backups/prod", objstore.Config{Region: "us-west-2", Endpoint: server.URL()})
	require.NoError(t, err)
	m, err := p.backups.Load(t.Context(), "b")
	require.NoError(t, err)
	p.backups = catalog.Catalog{Store: store}
	require.NoError(t, p.backups.PutManifest(t.Context(), m))
	require.NoError(t, p.backups.Seal(t.Context(), m.ID, m.SealedAt, 0))
	bucket, ok := objstore.BucketOf(store)
	require.True(t, ok)
	return server, bucket
}

func TestLock_BucketWithObjectLock_KeepsTheObjectsAsLong(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	r, err := p.lock(t, ebs.LockGovernance, p.days(1), 0)
	require.NoError(t, err)
	require.Contains(t, r.Objects.Unkept, "not in S3")
	faults := &fault.Plan{}
	server, bucket := p.inBucket(t, faults)
	r, err = p.lock(t, ebs.LockGovernance, p.days(2), 0)
	require.NoError(t, err)
	require.Contains(t, r.Objects.Unkept, "no Object Lock")

	server.LockBucket("backups")
	require.NoError(t, faults.Add(fault.Rule{Point: "s3.PutObjectRetention", Nth: 2, Code: "AccessDenied"}))
	r, err = p.lock(t, ebs.LockGovernance, p.days(3), 0)
	require.Equal(t, failure.Partial, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "1 of 2 objects are kept")
	require.Contains(t, failure.HintOf(err), "s3:PutObjectRetention")
	require.Equal(t, 3, r.Count("locked"))
	r, err = p.lock(t, ebs.LockGovernance, p.days(3), 0)
	require.NoError(t, err)
	keys := []string{manifest.ManifestKey("b"), manifest.SealKey("b")}
	require.Equal(t, keys, r.Objects.Kept)
	for mode, cool := range map[string]time.Duration{objstore.RetainGovernance: time.Hour, objstore.RetainCompliance: 0} {
		p := newPlace(t)
		server, bucket := p.inBucket(t, nil)
		server.LockBucket("backups")
		until := p.days(4) // the clock runs
		_, err = p.lock(t, ebs.LockCompliance, until, cool)
		require.NoError(t, err)
		for _, key := range keys {
			got, err := bucket.Retention(t.Context(), key, "")
			require.NoError(t, err)
			require.Equal(t, mode, got.Mode, key)
			require.False(t, got.Until.Before(until), key)
		}
	}
	got, err := bucket.Retention(t.Context(), keys[0], "")
	require.NoError(t, err)
	require.Equal(t, objstore.RetainGovernance, got.Mode)
}

// A copy's signed source is kept as long as the copy.
func TestLock_CopyOfASignedBackup_KeepsItsSource(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	server, bucket := p.inBucket(t, nil)
	server.LockBucket("backups")
	m, err := p.backups.Load(t.Context(), "b")
	require.NoError(t, err)
	require.NoError(t, p.backups.Store.Delete(t.Context(), manifest.ManifestKey("b")))
	require.NoError(t, p.backups.Store.Delete(t.Context(), manifest.SealKey("b")))
	m.CopyOf = &manifest.CopyOf{Run: "r", Storage: "s", Region: "r", Account: "a", CopyOf: &manifest.CopyOf{Signed: true}}
	require.NoError(t, p.backups.PutOrigin(t.Context(), "b", catalog.Document{Manifest: []byte("{}"), Signature: "s"}))
	require.NoError(t, p.backups.PutManifest(t.Context(), m))
	require.NoError(t, p.backups.Seal(t.Context(), "b", time.Now(), 0))
	until := p.days(1)
	r, err := p.lock(t, ebs.LockGovernance, until, 0)
	require.NoError(t, err)
	document, signature := manifest.OriginKeys("b")
	require.Subset(t, r.Objects.Kept, []string{document, signature})
	for _, key := range []string{document, signature} {
		got, err := bucket.Retention(t.Context(), key, "")
		require.NoError(t, err)
		require.False(t, got.Until.Before(until), key)
	}
}

// Object Lock does not keep a locked backup's objects from being written over and deleted. Behind that are the versions that
// it retains, which cannot be removed: written again they make the backup whole, and the same lock keeps them, too.
func TestLock_ObjectsAreWrittenOver_RetainedVersionsAreBroughtBack(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	server, bucket := p.inBucket(t, nil)
	server.LockBucket("backups")
	require.NoError(t, p.backups.Store.Delete(t.Context(), manifest.SealKey("b"))) // and again, with a version
	require.NoError(t, p.backups.Seal(t.Context(), "b", time.Now(), 0))
	until := p.days(1)
	r, err := p.lock(t, ebs.LockCompliance, until, 0)
	require.NoError(t, err)
	_, version, err := p.backups.Store.Get(t.Context(), manifest.ManifestKey("b"))
	require.NoError(t, err)
	_, err = p.backups.Store.Replace(t.Context(), manifest.ManifestKey("b"), []byte("{}"), version)
	require.NoError(t, err)
	require.NoError(t, p.backups.Store.Delete(t.Context(), manifest.SealKey("b")))
	_, err = p.backups.Load(t.Context(), "b")
	require.Error(t, err)

	for _, key := range r.Objects.Kept {
		versions, err := bucket.Versions(t.Context(), key)
		require.NoError(t, err)
		retained := ""
		for _, v := range versions {
			if v.Marker {
				continue
			}
			got, err := bucket.Retention(t.Context(), key, v.ID)
			require.NoError(t, err)
			if got.Until.Before(until) {
				continue
			}
			retained = v.ID
			require.Equal(t, failure.Denied, failure.KindOf(bucket.Remove(t.Context(), key, v.ID)))
		}
		body, _, err := bucket.Get(t.Context(), key, retained)
		require.NoError(t, err)
		require.NoError(t, p.backups.Store.Delete(t.Context(), key))
		_, err = p.backups.Store.Create(t.Context(), key, body)
		require.NoError(t, err)
		got, err := bucket.Retention(t.Context(), key, "")
		require.NoError(t, err)
		require.Empty(t, got.Mode)
	}
	_, err = p.backups.Load(t.Context(), "b")
	require.NoError(t, err)
	_, err = p.lock(t, ebs.LockCompliance, until, 0)
	require.NoError(t, err)
	for _, key := range r.Objects.Kept {
		got, err := bucket.Retention(t.Context(), key, "")
		require.NoError(t, err)
		require.False(t, got.Until.Before(until), key)
	}
}
