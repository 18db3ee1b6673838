package resolve_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/resolve"
)

// losing loses the answer of every write that it is asked to.
type losing struct {
	objstore.Store
	lose int
}

func (l *losing) answer(v objstore.Version, err error) (objstore.Version, error) {
	if err == nil && l.lose > 0 {
		l.lose--
		return "", failure.New(failure.Unknown, "write", "", "connection reset")
	}
	return v, err
}

func (l *losing) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	return l.answer(l.Store.Create(ctx, key, body))
}

func (l *losing) Replace(ctx context.Context, key string, body []byte, old objstore.Version) (objstore.Version, error) {
	return l.answer(l.Store.Replace(ctx, key, body, old))
}

func someProgress(run cluster.RunID) resolve.Progress {
	return resolve.Progress{
		ClusterID: 7_500_000_000_000_000_001, BackupTS: 100, Run: run, Stamps: resolve.Stamps{Start: 200, Commit: 201},
		Prepared: []cluster.KeyRange{{}},
		Flashed:  []cluster.KeyRange{{End: []byte("b")}, {Start: []byte{0xff, 0}, End: nil}},
	}
}

func progressFile(store objstore.Store) *resolve.ProgressFile {
	return resolve.NewProgressFile(store, cluster.Name{Namespace: "tidb", Name: "copy"}, "b1")
}

func TestProgressFile_SavedLoadedCleared(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	f := progressFile(store)
	_, ok, err := f.Load(t.Context())
	require.NoError(t, err)
	require.False(t, ok)
	want := someProgress("r1")
	for range 3 {
		require.NoError(t, f.Save(t.Context(), want))
	}
	got, ok, err := progressFile(store).Load(t.Context())
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, want, got)
	require.NoError(t, f.Clear(t.Context()))
	require.NoError(t, f.Clear(t.Context()))
	_, ok, err = progressFile(store).Load(t.Context())
	require.NoError(t, err)
	require.False(t, ok)
	require.NoError(t, f.Save(t.Context(), want), "after a clear it begins from scratch")
}

func TestProgressFile_AnswersOfWritesLost_NextSaveSucceeds(t *testing.T) {
	t.Parallel()
	store := &losing{Store: objstoretest.NewMemory(nil), lose: 1}
	f := progressFile(store)
	require.Error(t, f.Save(t.Context(), someProgress("r1")), "it was written, but its writer cannot know")
	require.NoError(t, f.Save(t.Context(), someProgress("r1")))
	store.lose = 1
	require.Error(t, f.Save(t.Context(), someProgress("r1")))
	require.NoError(t, f.Save(t.Context(), someProgress("r1")))
}

func TestProgressFile_AnotherRunTookOver_SaveIsConflict(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	old, next := progressFile(store), progressFile(store)
	require.NoError(t, old.Save(t.Context(), someProgress("r1")))
	_, _, err := next.Load(t.Context())
	require.NoError(t, err)
	require.NoError(t, next.Save(t.Context(), someProgress("r2")))
	err = old.Save(t.Context(), someProgress("r1"))
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, "run r2 has taken over")
	require.NoError(t, next.Save(t.Context(), someProgress("r2")))
}

func TestProgressFile_DamagedObject_IsCorrupt(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	_, err := store.Create(t.Context(), "resolve/tidb.copy/b1.json.gz", []byte("no gzip"))
	require.NoError(t, err)
	_, _, err = progressFile(store).Load(t.Context())
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
}
