package prune_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// vault is a repository in a bucket with Object Lock, with a retention of a day.
type vault struct {
	*lab
	server *objstoretest.Server
	store  objstore.Store
	bucket objstore.Bucket
	faults *fault.Plan
}

func newVault(t *testing.T, settings format.Settings) *vault {
	t.Helper()
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	v := &vault{lab: &lab{}, faults: &fault.Plan{}}
	v.server = objstoretest.New(objstoretest.Config{Page: 7, Faults: v.faults})
	require.NoError(t, v.server.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, v.server.Close()) })
	v.server.CreateBucket("locked")
	v.server.LockBucket("locked")
	var err error
	v.store, err = objstore.Open(t.Context(), "s3://locked/a", objstore.Config{Region: "us-west-2", Endpoint: v.server.URL()})
	require.NoError(t, err)
	t.Cleanup(v.store.(interface{ Close() }).Close)
	v.bucket, _ = objstore.BucketOf(v.store)
	settings.PackSize = 2 << 20
	v.repo, _, err = archivetest.NewWith(t.Context(), v.store, settings)
	require.NoError(t, err)
	return v
}

func aDay() format.Settings {
	return format.Settings{
		Retention: format.Retention{Mode: objstore.RetainCompliance, Days: 1}, Storage: format.Storage{ObjectLock: true},
	}
}

// run prunes so many hours after the beginning, by S3's clock, and returns how many requests changed a retention, too.
func (v *vault) run(t *testing.T, hours int) (*prune.Report, int) {
	t.Helper()
	v.server.Skew(time.Duration(hours) * time.Hour)
	before := len(v.server.MutatingCalls())
	r, err := prune.Run(t.Context(), v.repo, now())
	require.NoError(t, err)
	n := 0
	for _, call := range v.server.MutatingCalls()[before:] {
		if strings.HasPrefix(call, "PutObjectRetention ") {
			n++
		}
	}
	return r, n
}

// versions of an object, and what deletes it.
func (v *vault) versions(t *testing.T, key string) []objstore.ObjectVersion {
	t.Helper()
	all, err := v.bucket.Versions(t.Context(), key)
	require.NoError(t, err)
	return all
}

// ends is when a version of a key is no longer locked, in hours from now on.
func (v *vault) ends(t *testing.T, key, version string) int {
	t.Helper()
	r, err := v.bucket.Retention(t.Context(), key, version)
	require.NoError(t, err)
	return int(time.Until(r.Until).Round(time.Hour) / time.Hour)
}

// What no archive refers to stays, and is reported, for as long as it is locked. Then it is deleted for ever.
func TestRun_LockedGarbage_IsDeletedOnceItMayBe(t *testing.T) {
	v := newVault(t, aDay())
	old, kept := v.put(t, "old", 1), v.put(t, "new", 2)
	v.forget(t, "old")
	r, _ := v.run(t, 0)
	require.Equal(t, int64(1), r.Locked.Packs)
	require.Equal(t, int64(1), r.Locked.Segments)
	require.Positive(t, r.Locked.Bytes)
	require.WithinDuration(t, time.Now().Add(24*time.Hour), r.Locked.Until, time.Minute)
	require.Zero(t, r.Garbage)
	require.Zero(t, r.Deleted)
	require.Empty(t, v.versions(t, format.CondemnedPrefix), "nothing is condemned in vain")
	require.Len(t, v.versions(t, old.Path()), 1)
	r, _ = v.run(t, 25)
	require.Zero(t, r.Locked)
	require.Equal(t, int64(1), r.Deleted.Packs)
	require.Equal(t, int64(1), r.Deleted.Segments)
	require.Empty(t, v.versions(t, old.Path()), "no marker before bytes that are paid for")
	require.Len(t, v.versions(t, kept.Path()), 1)
}

// What is in use is retained for longer, by one request each, once a third of the period has passed.
func TestRun_InUse_IsRetainedForLonger(t *testing.T) {
	v := newVault(t, aDay())
	pack := v.put(t, "a", 1)
	_, n := v.run(t, 0)
	require.Equal(t, 2, n, "of the archive and repo.json, since no prune has recorded anything")
	for _, row := range []struct{ hours, requests, ends int }{
		{7, 0, 24}, {9, 4, 33}, {9, 0, 33}, {16, 0, 33}, {18, 4, 42},
	} {
		t.Run(fmt.Sprint(row.hours), func(t *testing.T) {
			r, n := v.run(t, row.hours)
			require.Equal(t, row.requests, n)
			require.Equal(t, int64(row.requests), r.Extended)
			require.Equal(t, row.ends, v.ends(t, pack.Path(), ""))
		})
	}
	require.Equal(t, 42, v.ends(t, "archives/a", ""))
	require.Equal(t, 42, v.ends(t, format.RepositoryPath, ""))
	dry := now()
	dry.DryRun = true
	v.server.Skew(40 * time.Hour)
	r, err := prune.Run(t.Context(), v.repo, dry)
	require.NoError(t, err)
	require.Equal(t, int64(4), r.Extended)
	require.Equal(t, 42, v.ends(t, pack.Path(), ""))
}

// While an archive cannot be read, so that nothing is deleted, all is retained for longer.
func TestRun_UnreadableArchive_AllIsRetained(t *testing.T) {
	v := newVault(t, aDay())
	used, junk := v.put(t, "b", 1), v.put(t, "c", 2)
	v.forget(t, "c")
	v.run(t, 0)
	_, err := v.store.Create(t.Context(), "archives/a", []byte(strings.Repeat("x", 200)))
	require.NoError(t, err)
	v.server.Skew(9 * time.Hour)
	_, err = prune.Run(t.Context(), v.repo, now())
	require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
	for _, key := range []string{used.Path(), junk.Path(), "archives/a", "archives/b", format.RepositoryPath} {
		require.Equal(t, 33, v.ends(t, key, ""), key)
	}
}

// A prune that cannot delete, or rewrite, retains what is in use for longer nevertheless.
func TestRun_OtherFailure_InUseIsRetained(t *testing.T) {
	v := newVault(t, aDay())
	used, junk := v.put(t, "a", 1), v.put(t, "b", 2)
	v.forget(t, "b")
	v.run(t, 0)
	v.server.Skew(25 * time.Hour)
	require.NoError(t, v.faults.Add(fault.Rule{Point: "s3.DeleteObject", Code: "AccessDenied", Times: -1}))
	_, err := prune.Run(t.Context(), v.repo, now())
	require.True(t, failure.Is(err, failure.Denied), "%v", err)
	require.Equal(t, 49, v.ends(t, used.Path(), ""))
	require.Equal(t, 24, v.ends(t, junk.Path(), ""))
}

// Garbage that was in use when it was retained for longer is locked until then.
func TestRun_ExtendedGarbage_IsLockedUntilThen(t *testing.T) {
	v := newVault(t, aDay())
	pack := v.put(t, "a", 1)
	v.run(t, 9)
	v.forget(t, "a")
	r, _ := v.run(t, 25)
	require.Equal(t, int64(1), r.Locked.Packs)
	require.WithinDuration(t, time.Now().Add(33*time.Hour), r.Locked.Until, time.Minute)
	require.Len(t, v.versions(t, pack.Path()), 1)
	r, _ = v.run(t, 34)
	require.Equal(t, int64(1), r.Deleted.Packs)
}

// Whoever has no key cannot pretend that all is retained. Nor does a prune believe its record of what a run under way
// has written and no archive refers to yet.
func TestRun_RecordOfRetention_IsNotBelievedTooFar(t *testing.T) {
	for name, before := range map[string]func(*testing.T, *vault){
		"forged": func(t *testing.T, v *vault) {
			_, version, err := v.store.Get(t.Context(), format.RetainedPath)
			require.NoError(t, err)
			_, err = v.store.Replace(t.Context(), format.RetainedPath,
				[]byte(time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339)+"\n"+strings.Repeat("0", 64)+"\n"), version)
			require.NoError(t, err)
		},
		"a run is under way": func(t *testing.T, v *vault) {
			_, err := lease.Write(t.Context(), v.store, "b", "writer")
			require.NoError(t, err)
			v.run(t, 9)
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t, aDay())
			pack := v.put(t, "a", 1)
			v.run(t, 0)
			before(t, v)
			_, n := v.run(t, 9)
			require.Equal(t, 4, n)
			require.Equal(t, 33, v.ends(t, pack.Path(), ""))
		})
	}
}

// A pack or a map that someone has deleted or overwritten counts by its first version, which is kept.
func TestRun_HiddenByOthers_FirstVersionIsKept(t *testing.T) {
	v := newVault(t, aDay())
	deleted, overwritten := v.put(t, "a", 1), v.put(t, "b", 2)
	first := v.versions(t, deleted.Path())[0].ID
	again := v.versions(t, overwritten.Path())[0]
	require.NoError(t, v.store.Delete(t.Context(), deleted.Path()))
	_, err := v.store.Replace(t.Context(), overwritten.Path(), []byte("not a pack"), again.Version)
	require.NoError(t, err)
	r, _ := v.run(t, 9)
	require.Zero(t, r.Garbage)
	require.Equal(t, int64(2), r.Stored.Packs)
	require.Equal(t, 33, v.ends(t, deleted.Path(), first))
	require.Equal(t, 33, v.ends(t, overwritten.Path(), again.ID))
}

// Without a retention of its own, a repository in a bucket that keeps versions deletes them, too, and what the bucket's
// default retention locks once it may.
func TestRun_BucketKeepsVersions_TheyAreDeleted(t *testing.T) {
	for name, usual := range map[string]string{
		"no default": "",
		"compliance": "<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Days>1</Days></DefaultRetention></Rule>",
	} {
		t.Run(name, func(t *testing.T) {
			v := newVault(t, format.Settings{})
			v.server.SetObjectLock("locked", usual)
			old := v.put(t, "old", 1)
			v.forget(t, "old")
			require.NoError(t, v.store.Delete(t.Context(), old.Path()), "by an earlier prune")
			r, _ := v.run(t, 0)
			if usual != "" {
				require.Equal(t, int64(1), r.Locked.Packs)
				require.Len(t, v.versions(t, old.Path()), 2)
				r, _ = v.run(t, 25)
			}
			require.Equal(t, int64(1), r.Deleted.Packs)
			require.Empty(t, v.versions(t, old.Path()))
		})
	}
}

// An archive that someone has deleted, and whose writer left its lease, was committed: it is not forgotten.
func TestRun_HiddenArchiveOfADeadWriter_IsNotForgotten(t *testing.T) {
	v := newVault(t, aDay())
	v.put(t, "a", 1)
	_, err := lease.Write(t.Context(), v.store, "a", "dead")
	require.NoError(t, err)
	require.NoError(t, v.store.Delete(t.Context(), "archives/a"))
	o := now()
	o.BreakAfter = 0
	require.NoError(t, v.faults.Add(fault.Rule{Point: "s3.ListObjectVersions", Code: "AccessDenied"}))
	_, err = prune.Run(t.Context(), v.repo, o)
	require.True(t, failure.Is(err, failure.Denied), "%v", err)
	r, err := prune.Run(t.Context(), v.repo, o)
	require.NoError(t, err)
	require.Empty(t, r.Broken)
	require.Equal(t, 1, r.Archives)
	left, err := lease.All(t.Context(), v.store)
	require.NoError(t, err)
	require.Empty(t, left)
	require.Len(t, v.versions(t, "archives/a"), 2, "no tombstone")
}

// A deleted archive is forgotten, also if it cannot be read; while that is unknown, it is not.
func TestForget_Hidden_IsForgottenUnlessUnknown(t *testing.T) {
	v := newVault(t, aDay())
	v.put(t, "bad", 1)
	_, version, err := v.store.Get(t.Context(), "archives/bad")
	require.NoError(t, err)
	_, err = v.store.Replace(t.Context(), "archives/bad", []byte(strings.Repeat("x", 200)), version)
	require.NoError(t, err)
	require.NoError(t, v.store.Delete(t.Context(), "archives/bad"))
	require.NoError(t, v.faults.Add(fault.Rule{Point: "s3.ListObjectVersions", Code: "PreconditionFailed"}))
	err = prune.Forget(t.Context(), v.repo, "bad")
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	v.forget(t, "bad")
	ids, err := v.repo.Archives(t.Context())
	require.NoError(t, err)
	require.Empty(t, ids)
}
