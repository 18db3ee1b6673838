package repository_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// What samples have read adds up, for the maps that were read alone; damage and a forged record make it unread again.
func TestRecordVerified_UnreadUntilRead(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	r, _, err := archivetest.New(t.Context(), store, 1<<20)
	require.NoError(t, err)
	archives := map[string]*format.Archive{}
	for i, id := range []string{"one", "two"} {
		archives[id] = &format.Archive{Backup: id, Manifest: format.NewManifest(nil), Stores: []format.Store{{
			ID: 1, Volumes: []format.Volume{{Size: 1, Segments: []format.SegmentName{{byte(i)}}}},
		}}}
		require.NoError(t, r.Commit(t.Context(), id, archives[id]))
	}
	at := time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)
	unread := func() (one, two float64) {
		v, err := r.Verified(t.Context())
		require.NoError(t, err)
		return v.Of("one", archives["one"].Maps()).Unread, v.Of("two", archives["two"].Maps()).Unread
	}
	requireUnread := func(one, two float64) {
		t.Helper()
		gotOne, gotTwo := unread()
		require.InDelta(t, one, gotOne, 1e-9)
		require.InDelta(t, two, gotTwo, 1e-9)
	}
	record := func(share float64, whole ...string) {
		t.Helper()
		maps := map[string]format.Digest{}
		for _, id := range whole {
			maps[id] = archives[id].Maps()
		}
		require.NoError(t, r.RecordVerified(t.Context(), []string{"one", "two"}, maps, share, at))
	}
	requireUnread(1, 1)
	record(.5, "one", "two")
	record(.5, "one", "two")
	requireUnread(.25, .25)
	v, err := r.Verified(t.Context())
	require.NoError(t, err)
	require.Equal(t, at, v.Of("one", archives["one"].Maps()).Last)
	record(1, "two") // one is damaged
	requireUnread(1, 0)

	archives["two"].Stores[0].Volumes[0].Segments[0][1] = 9 // a prune moved its blocks
	requireUnread(1, 1)
	record(.5, "two")
	requireUnread(1, .5)

	require.NoError(t, store.Delete(t.Context(), "archives/two"))
	require.NoError(t, r.RecordVerified(t.Context(), nil, nil, 1, at))
	requireUnread(1, 1)
	record(1, "one")
	requireUnread(0, 1)
	require.NoError(t, store.Delete(t.Context(), format.VerifiedPath))
	_, err = store.Create(t.Context(), format.VerifiedPath, []byte("{}"))
	require.NoError(t, err)
	requireUnread(1, 1)
	record(1, "one")
	requireUnread(0, 1)
}
