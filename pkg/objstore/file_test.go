package objstore_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
)

func openFile(t *testing.T) (objstore.Store, string) {
	t.Helper()
	root := t.TempDir()
	return open(t, "file://"+root, objstore.Config{}), root
}

func TestFile_Writes_LeaveNoTemporaryFiles(t *testing.T) {
	t.Parallel()
	store, root := openFile(t)
	v, err := store.Create(t.Context(), "a/b", []byte("one"))
	require.NoError(t, err)
	_, err = store.Replace(t.Context(), "a/b", []byte("two"), v)
	require.NoError(t, err)
	_, err = store.Create(t.Context(), "a/b", []byte("three"))
	require.Error(t, err)
	entries, err := os.ReadDir(filepath.Join(root, "a"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestFileList_LeftoverOfACrash_IsNotAnObject(t *testing.T) {
	t.Parallel()
	store, root := openFile(t)
	require.NoError(t, os.WriteFile(filepath.Join(root, ".tisnap-abc"), []byte("half"), 0o600))
	found, err := store.List(t.Context(), "")
	require.NoError(t, err)
	require.Empty(t, found)
}

func TestFileCreate_BelowAnotherKey_IsUsage(t *testing.T) {
	t.Parallel()
	store, _ := openFile(t)
	_, err := store.Create(t.Context(), "a", nil)
	require.NoError(t, err)
	_, err = store.Create(t.Context(), "a/b", nil)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

func TestFileReplace_OtherStoreOnTheFolder_IsExcluded(t *testing.T) {
	t.Parallel()
	store, root := openFile(t)
	other := open(t, "file://"+root, objstore.Config{})
	v, err := store.Create(t.Context(), "a", []byte("one"))
	require.NoError(t, err)
	_, err = other.Replace(t.Context(), "a", []byte("two"), v)
	require.NoError(t, err)
	_, err = store.Replace(t.Context(), "a", []byte("three"), v)
	require.Equal(t, failure.Conflict, failure.KindOf(err))
}

// Another writer that hangs while it holds the folder's lock: the wait ends with the caller's deadline.
func TestFileCreate_FolderLocked_WaitsForTheDeadline(t *testing.T) {
	t.Parallel()
	store, root := openFile(t)
	release := objstore.LockFolder(t, root)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := store.Create(ctx, "a", nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, failure.Limited, failure.KindOf(err))
	release()
	_, err = store.Create(t.Context(), "a", nil)
	require.NoError(t, err)
}

func TestFile_RootIsAFile_IsUsage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err := open(t, "file://"+path, objstore.Config{}).Create(t.Context(), "a", nil)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

// A large file's version is not of its content, and still distinguishes two contents.
func TestFile_LargeObject_HasOneVersionUntilItIsReplaced(t *testing.T) {
	t.Parallel()
	store, root := openFile(t)
	body := make([]byte, 9<<20)
	old, err := store.Create(t.Context(), "packs/a", body)
	require.NoError(t, err)
	got, version, err := store.Get(t.Context(), "packs/a")
	require.NoError(t, err)
	require.Equal(t, old, version)
	require.Len(t, got, len(body))
	listed, err := store.List(t.Context(), "packs/")
	require.NoError(t, err)
	require.Equal(t, old, listed[0].Version)
	require.EqualValues(t, len(body), listed[0].Size)

	later := time.Now().Add(time.Hour) // as of another write, whatever the file system's resolution
	require.NoError(t, os.Chtimes(filepath.Join(root, "packs", "a"), later, later))
	_, err = store.Replace(t.Context(), "packs/a", body, old)
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	require.True(t, failure.Is(store.DeleteVersion(t.Context(), "packs/a", old), failure.Conflict))
	_, version, err = store.Get(t.Context(), "packs/a")
	require.NoError(t, err)
	require.NoError(t, store.DeleteVersion(t.Context(), "packs/a", version))
}
