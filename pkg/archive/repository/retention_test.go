package repository_test

import (
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// lockedStore is a store in a new bucket with Object Lock.
func lockedStore(t *testing.T, faults *fault.Plan) (objstore.Store, objstore.Bucket) {
	t.Helper()
	server := objstoretest.New(objstoretest.Config{Faults: faults})
	require.NoError(t, server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	server.CreateBucket("locked")
	server.LockBucket("locked")
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	store, err := objstore.Open(t.Context(), "s3://locked/a", objstore.Config{Region: "us-west-2", Endpoint: server.URL()})
	require.NoError(t, err)
	t.Cleanup(store.(interface{ Close() }).Close)
	bucket, _ := objstore.BucketOf(store)
	return store, bucket
}

// All that is written once, or replaced by the same, is locked from its write on.
func TestRetention_WhatIsWritten_IsLocked(t *testing.T) {
	store, bucket := lockedStore(t, nil)
	keep := format.Retention{Mode: objstore.RetainCompliance, Days: 30}
	r, owner, err := archivetest.NewWith(t.Context(), store, format.Settings{PackSize: 2 << 20, Retention: keep})
	require.NoError(t, err)
	require.NoError(t, r.Commit(t.Context(), "a1", &format.Archive{Backup: "b", Manifest: format.NewManifest([]byte("m"))}))
	_, err = r.PutSegment(t.Context(), make(format.Segment, 1))
	require.NoError(t, err)
	require.NoError(t, r.PutPack(t.Context(), format.NewPackName(), []byte("a pack")))
	a, version, err := r.ArchiveVersion(t.Context(), "a1")
	require.NoError(t, err)
	_, err = r.Recommit(t.Context(), "a1", a, version)
	require.NoError(t, err)
	_, err = repository.ChangeKeys(t.Context(), store, append([]age.Identity{}, owner), func(*repository.Keys) error { return nil })
	require.NoError(t, err)
	all, err := bucket.Versions(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, all, 6, "%v", all) // two of the archive, and two of repo.json
	for _, v := range all {
		got, err := bucket.Retention(t.Context(), v.Key, v.ID)
		require.NoError(t, err, v.Key)
		require.Equal(t, keep.Mode, got.Mode, v.Key)
		require.WithinDuration(t, time.Now().AddDate(0, 0, 30), got.Until, 2*time.Hour, v.Key)
		require.Equal(t, failure.Denied, failure.KindOf(bucket.Remove(t.Context(), v.Key, v.ID)))
	}
	again, err := repository.Open(t.Context(), store, owner)
	require.NoError(t, err)
	require.Equal(t, keep, again.Settings().Retention)
}

// What an archive uses is locked until its own lock ends, or that of what it shares with earlier ones.
func TestLockedUntil_IsNotAfterWhatItShares(t *testing.T) {
	store, _ := lockedStore(t, nil)
	r, _, err := archivetest.NewWith(t.Context(), store, format.Settings{
		PackSize: 2 << 20, Retention: format.Retention{Mode: objstore.RetainGovernance, Days: 1},
	})
	require.NoError(t, err)
	require.NoError(t, r.Commit(t.Context(), "a", &format.Archive{Backup: "b", Manifest: format.NewManifest([]byte("m"))}))
	until, err := r.LockedUntil(t.Context(), "a")
	require.NoError(t, err)
	require.Zero(t, until, "no prune has retained anything")
	for retained, want := range map[time.Duration]time.Duration{time.Hour: time.Hour, 48 * time.Hour: 24 * time.Hour} {
		t.Run(retained.String(), func(t *testing.T) {
			require.NoError(t, r.SetRetained(t.Context(), time.Now().Add(retained)))
			until, err := r.LockedUntil(t.Context(), "a")
			require.NoError(t, err)
			require.WithinDuration(t, time.Now().Add(want), until, time.Minute)
		})
	}
}

// What someone puts over a pack, or before it, does not count as the pack.
func TestStored_HiddenByOthers_IsTheFirstVersion(t *testing.T) {
	store, bucket := lockedStore(t, nil)
	r, _, err := archivetest.NewWith(t.Context(), store, format.Settings{PackSize: 2 << 20, Storage: format.Storage{ObjectLock: true}})
	require.NoError(t, err)
	var names [3]format.PackName
	var first []objstore.ObjectVersion
	for i := range names {
		names[i] = format.NewPackName()
		require.NoError(t, r.PutPack(t.Context(), names[i], []byte("a pack")))
		v, err := bucket.Versions(t.Context(), names[i].Path())
		require.NoError(t, err)
		first = append(first, v...)
	}
	_, err = store.Replace(t.Context(), names[1].Path(), []byte("another"), first[1].Version)
	require.NoError(t, err)
	require.NoError(t, store.Delete(t.Context(), names[2].Path()))
	_, versions, err := r.Versioned(t.Context())
	require.NoError(t, err)
	require.True(t, versions)
	for i, hidden := range []bool{false, true, true} {
		got, err := r.Stored(t.Context(), names[i].Path(), versions)
		require.NoError(t, err)
		require.Len(t, got, 1)
		require.Equal(t, first[i].ID, got[0].ID)
		require.Equal(t, int64(len("a pack")), got[0].Size)
		require.Equal(t, hidden, got[0].Hidden)
	}
}
