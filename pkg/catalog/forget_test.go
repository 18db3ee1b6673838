package catalog_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// recorded is a storage with the manifest of a backup that is not sealed.
func recorded(t *testing.T) (catalog.Catalog, *manifest.Manifest) {
	t.Helper()
	c, m := catalog.Catalog{Store: objstoretest.NewMemory(nil)}, sample("b-1")
	require.NoError(t, c.PutManifest(t.Context(), m))
	_, err := c.Store.Create(t.Context(), manifest.MarksKey(m.ID), []byte("marks"))
	require.NoError(t, err)
	return c, m
}

func left(t *testing.T, c catalog.Catalog) int {
	t.Helper()
	found, err := c.Store.List(t.Context(), "")
	require.NoError(t, err)
	return len(found)
}

func TestForget_DeletesWhatNamesTheSnapshots(t *testing.T) {
	t.Parallel()
	c, m := recorded(t)
	for range 2 { // it may be called again
		require.NoError(t, c.Forget(t.Context(), m.ID, m.Run, m.BackupTS))
		require.Zero(t, left(t, c))
	}
}

// Another process of the run threw the cut away, and recorded its own.
func TestForget_RecordedByAnotherProcess_Stays(t *testing.T) {
	t.Parallel()
	c, m := recorded(t)
	for name, err := range map[string]error{
		"another backup ts": c.Forget(t.Context(), m.ID, m.Run, m.BackupTS+1),
		"another run":       c.Forget(t.Context(), m.ID, "other", m.BackupTS),
	} {
		require.Equal(t, failure.Conflict, failure.KindOf(err), "%s: %v", name, err)
		require.Equal(t, 3, left(t, c), name)
	}
	require.NoError(t, c.Forget(t.Context(), m.ID, m.Run, 0), "a run that is aborted knows no backup ts")
	require.Zero(t, left(t, c))
}

// late is a storage whose objects are written again between the look at them and their deletion.
type late struct {
	objstore.Store
	t *testing.T
}

func (l late) DeleteVersion(ctx context.Context, key string, old objstore.Version) error {
	_, err := l.Replace(ctx, key, []byte("another's"), old)
	require.NoError(l.t, err)
	return l.Store.DeleteVersion(ctx, key, old)
}

func TestForget_WrittenMeanwhile_Stays(t *testing.T) {
	t.Parallel()
	c, m := recorded(t)
	c.Store = late{c.Store, t}
	err := c.Forget(t.Context(), m.ID, m.Run, m.BackupTS)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Equal(t, 3, left(t, c))
}
