package storage_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/storage"
)

// at is a store that is found at a URL of its own.
type at struct {
	objstore.Store
	url string
}

func (a at) URL() string { return a.url }

// deaf is a store whose server ignores conditions.
type deaf struct {
	objstore.Store
	noneMatch, match bool
}

func (d deaf) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if d.noneMatch {
		if err := d.Store.Delete(ctx, key); err != nil {
			return "", err
		}
	}
	return d.Store.Create(ctx, key, body)
}

func (d deaf) Replace(ctx context.Context, key string, body []byte, old objstore.Version) (objstore.Version, error) {
	if d.match {
		_, now, err := d.Get(ctx, key)
		if err != nil {
			return "", err
		}
		old = now
	}
	return d.Store.Replace(ctx, key, body, old)
}

// Two runs would have one cluster: what is missing is named, nothing else is written, and what the proof wrote is gone.
func TestOpen_ServerIgnoresConditions_IsRefusedByName(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]deaf{"If-None-Match": {noneMatch: true}, "If-Match": {match: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.Store = objstoretest.NewMemory(nil)
			_, err := storage.Open(t.Context(), row, "v1")
			require.Equal(t, failure.Unready, failure.KindOf(err), err)
			require.ErrorContains(t, err, "its server ignores "+name+":")
			objects, err := row.List(t.Context(), "")
			require.NoError(t, err)
			require.Empty(t, objects)
			_, err = storage.Check(t.Context(), row)
			require.Equal(t, failure.Unready, failure.KindOf(err), "a dry run finds it too")
		})
	}
}

// An archive repository can do without: it only has to know.
func TestProbe_FindsWhatTheServerHonours(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]deaf{
		"all": {}, "no If-None-Match": {noneMatch: true}, "no If-Match": {match: true}, "none": {noneMatch: true, match: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			row.Store = objstoretest.NewMemory(nil)
			honours, err := storage.Probe(t.Context(), row)
			require.NoError(t, err)
			require.Equal(t, storage.Conditions{Create: !row.noneMatch, Replace: !row.match}, honours)
			objects, err := row.List(t.Context(), "")
			require.NoError(t, err)
			require.Empty(t, objects)
		})
	}
}

// What was proven of a server is not proven again by the same version, and is by the next.
func TestOpen_ProvesOnceForEachVersion(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	first, err := storage.Open(t.Context(), store, "v1")
	require.NoError(t, err)
	calls := len(store.MutatingCalls())
	again, err := storage.Open(t.Context(), store, "v1")
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)
	require.Len(t, store.MutatingCalls(), calls)
	next, err := storage.Open(t.Context(), store, "v2")
	require.NoError(t, err)
	require.Equal(t, first.ID, next.ID)
	require.Greater(t, len(store.MutatingCalls()), calls)
	objects, err := store.List(t.Context(), "")
	require.NoError(t, err)
	require.Len(t, objects, 1, "the proofs are deleted")
	require.Equal(t, manifest.StorageKey, objects[0].Key)
}

// A copy has the original's identity and is at another place: it owns nothing until its owner declares what it is.
func TestCopy_OwnsNothingUntilItIsAdopted(t *testing.T) {
	t.Parallel()
	inner := objstoretest.NewMemory(nil)
	original, err := storage.Open(t.Context(), at{inner, "s3://a/b"}, "v1")
	require.NoError(t, err)
	require.True(t, original.Owns(original.ID))
	require.True(t, original.Owns(""), "of an older version")
	require.False(t, original.Owns("another"))
	require.NoError(t, original.RefuseCopy("delete"))

	here := at{inner, "s3://c/b"}
	found, err := storage.Open(t.Context(), here, "v2")
	require.NoError(t, err)
	require.True(t, found.IsCopy())
	require.False(t, found.Owns(original.ID))
	require.False(t, found.Owns(""))
	require.Equal(t, failure.Unready, failure.KindOf(found.RefuseCopy("delete")))
	require.ErrorContains(t, found.RefuseCopy("delete"), "a copy of s3://a/b")
	require.Equal(t, failure.Conflict, failure.KindOf(found.CheckRun("r", original.ID, "s3://a/b")))
	require.Equal(t, failure.Conflict, failure.KindOf(found.CheckRun("r", "", "")), "of an older version")
	require.NoError(t, found.CheckRun("r", original.ID, "s3://c/b"), "a restore from the copy")

	copied, err := storage.Adopt(t.Context(), here, storage.Copied)
	require.NoError(t, err)
	require.NoError(t, copied.RefuseCopy("delete"))
	require.NotEqual(t, original.ID, copied.ID)
	require.False(t, copied.Owns(original.ID))
	require.False(t, copied.Owns(""), "its owner is unknown")
	require.Equal(t, failure.Conflict, failure.KindOf(copied.CheckRun("r", original.ID, "s3://a/b")))

	moved, err := storage.Adopt(t.Context(), at{inner, "s3://d/b"}, storage.Moved)
	require.NoError(t, err)
	require.Equal(t, copied.ID, moved.ID)
	require.True(t, moved.Owns(copied.ID))
	require.NoError(t, moved.CheckRun("r", copied.ID, "s3://c/b"))
}

// A folder is one place, whatever links lead to it.
func TestLocation_LinksAreFollowed(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o750))
	require.NoError(t, os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "link")))
	open := func(path string) objstore.Store {
		s, err := objstore.Open(t.Context(), "file://"+filepath.Join(dir, path), objstore.Config{})
		require.NoError(t, err)
		return s
	}
	require.Equal(t, "file://"+filepath.Join(dir, "real/new"), objstore.Location(open("link/new")))
	require.Equal(t, objstore.Location(open("real")), objstore.Location(open("link")))
}

// Two commands that meet a storage without an identity have the same one afterwards, whoever was faster.
func TestEstablish_TwoAtOnce_HaveOneIdentity(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	first, err := storage.Find(t.Context(), store)
	require.NoError(t, err)
	second, err := storage.Find(t.Context(), store)
	require.NoError(t, err)
	require.NotEqual(t, first.ID, second.ID)
	require.NoError(t, first.ProveServer(t.Context(), store, "v1"))
	require.NoError(t, second.ProveServer(t.Context(), store, "v2"))
	require.NoError(t, first.Establish(t.Context(), store, ""))
	require.NoError(t, second.Establish(t.Context(), store, ""))
	require.Equal(t, first.ID, second.ID)
	stored, err := storage.Read(t.Context(), store)
	require.NoError(t, err)
	require.Equal(t, first.ID, stored.ID)
	require.Len(t, stored.Proven, 2, "what the slower one has proven is noted, too")
}

// A journal that names another identity stays as it is: its run does not take the storage's.
func TestEstablish_JournalHasAnotherIdentity_IsAConflict(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	late, err := storage.Find(t.Context(), store)
	require.NoError(t, err)
	_, err = storage.Open(t.Context(), store, "v1")
	require.NoError(t, err)
	err = late.Establish(t.Context(), store, late.ID)
	require.Equal(t, failure.Conflict, failure.KindOf(err), err)
	require.ErrorContains(t, err, "another command did so at the same time")
}
