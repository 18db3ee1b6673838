package repository_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/failure"
)

// commit commits an archive of a backup, made on this day, of a store without a volume.
func (l *lab) commit(t *testing.T, id, backup string, day int) {
	t.Helper()
	require.NoError(t, l.Commit(t.Context(), id, &format.Archive{
		Backup: backup, Created: time.Date(2026, 11, day, 0, 0, 0, 0, time.UTC), Manifest: format.NewManifest([]byte("{}")),
		Stores: []format.Store{{ID: 1, Volumes: []format.Volume{{Role: "data", Size: 1, Segments: []format.SegmentName{{}}}}}},
	}))
}

// damage changes the last byte of an object.
func (l *lab) damage(t *testing.T, key string) {
	t.Helper()
	object, version, err := l.store.Get(t.Context(), key)
	require.NoError(t, err)
	object[len(object)-1] ^= 1
	_, err = l.store.Replace(t.Context(), key, object, version)
	require.NoError(t, err)
}

func TestList_OldestFirst_DamagedOnesNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.commit(t, "a", "nightly-2", 2)
	l.commit(t, "b", "nightly-1", 1)
	l.commit(t, "c", "nightly-3", 3)
	l.damage(t, "archives/c")
	entries, err := l.List(t.Context())
	require.NoError(t, err)
	require.Len(t, entries, 3)
	require.Equal(t, "c", entries[0].ID)
	require.True(t, failure.Is(entries[0].Err, failure.Corrupt), "%v", entries[0].Err)
	require.Equal(t, []string{"b", "a"}, []string{entries[1].ID, entries[2].ID})
	require.Equal(t, "nightly-1", entries[1].Archive.Backup)
	require.Nil(t, entries[1].Archive.Manifest.Data)
	require.Nil(t, entries[1].Archive.Stores[0].Volumes[0].Segments)
}

func TestFind_ByIDNameOrLatest(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, _, err := l.Find(t.Context(), "latest")
	require.True(t, failure.Is(err, failure.NotFound), "%v", err)
	l.commit(t, "nightly-1", "nightly", 3)
	l.commit(t, "nightly-2", "other", 2)
	l.commit(t, "weekly-1", "weekly", 1)
	l.commit(t, "weekly-2", "weekly", 1)
	for ref, want := range map[string]string{
		"nightly-2": "nightly-2", "nightly": "nightly-1", "other": "nightly-2", "latest": "nightly-1",
	} {
		id, a, err := l.Find(t.Context(), ref)
		require.NoError(t, err, ref)
		require.Equal(t, want, id, ref)
		require.Len(t, a.Stores[0].Volumes[0].Segments, 1, "it is whole")
	}
	for ref, kind := range map[string]failure.Kind{
		"weekly": failure.Usage, "night": failure.Usage, "none": failure.NotFound, "": failure.NotFound,
		"a/b": failure.NotFound,
	} {
		_, _, err := l.Find(t.Context(), ref)
		require.True(t, failure.Is(err, kind), "%q: %v", ref, err)
		require.NotEmpty(t, failure.HintOf(err), ref)
	}
}

// A damaged archive may be the latest one: an older one is not given instead.
func TestFind_LatestMayBeDamaged_Refused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.commit(t, "a", "nightly-1", 1)
	l.commit(t, "b", "nightly-2", 2)
	l.damage(t, "archives/b")
	_, _, err := l.Find(t.Context(), "latest")
	require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
	require.ErrorContains(t, err, "archive b")
	id, _, err := l.Find(t.Context(), "nightly-1")
	require.NoError(t, err)
	require.Equal(t, "a", id)
}
