package repository_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
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

// rotten is a store in which the record fails its checksum until it is replaced.
type rotten struct {
	objstore.Store
	is bool
}

func (r *rotten) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	if r.is && key == format.VerifiedPath {
		return nil, "", failure.New(failure.Corrupt, "get object", key, "checksum did not match")
	}
	return r.Store.Get(ctx, key)
}

func (r *rotten) Replace(ctx context.Context, key string, body []byte, old objstore.Version) (objstore.Version, error) {
	version, err := r.Store.Replace(ctx, key, body, old)
	r.is = r.is && err != nil
	return version, err
}

// A record that is damaged in the storage is replaced by the next one.
func TestRecordVerified_RecordIsDamaged_IsReplaced(t *testing.T) {
	t.Parallel()
	store := &rotten{Store: objstoretest.NewMemory(nil)}
	r, _, err := archivetest.New(t.Context(), store, 1<<20)
	require.NoError(t, err)
	a := &format.Archive{Backup: "one", Manifest: format.NewManifest(nil)}
	require.NoError(t, r.Commit(t.Context(), "one", a))
	whole := map[string]format.Digest{"one": a.Maps()}
	for _, store.is = range []bool{false, true} {
		require.NoError(t, r.RecordVerified(t.Context(), []string{"one"}, whole, .5, time.Now()))
		v, err := r.Verified(t.Context())
		require.NoError(t, err)
		require.InDelta(t, .5, v.Of("one", a.Maps()).Unread, 1e-9)
	}
}

// rival is a store in which another command comes first, so many times, when the record is read or written.
type rival struct {
	objstore.Store
	reads, writes int
	act           func()
}

func (r *rival) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	r.first(key, &r.reads)
	return r.Store.Get(ctx, key)
}

func (r *rival) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	r.first(key, &r.writes)
	return r.Store.Create(ctx, key, body)
}

func (r *rival) Replace(ctx context.Context, key string, body []byte, old objstore.Version) (objstore.Version, error) {
	r.first(key, &r.writes)
	return r.Store.Replace(ctx, key, body, old)
}

func (r *rival) first(key string, times *int) {
	if key == format.VerifiedPath && *times > 0 {
		*times--
		r.act()
	}
}

// What another command has recorded meanwhile, of an archive that it has committed meanwhile, too, stays in the record,
// and what was read is added, or it is an error.
func TestRecordVerified_OthersRecordMeanwhile_BothStay(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		reads, writes int
		conflict      bool
	}{
		"alone": {}, "before the record is read": {reads: 1}, "before it is written": {writes: 1},
		"four times": {writes: 4}, "each time": {writes: 5, conflict: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &rival{Store: objstoretest.NewMemory(nil)}
			r, owner, err := archivetest.New(t.Context(), store, 1<<20)
			require.NoError(t, err)
			other, err := repository.Open(t.Context(), store.Store, owner)
			require.NoError(t, err)
			record := func(r *repository.Repository, id string) error {
				return r.RecordVerified(t.Context(), []string{id}, map[string]format.Digest{id: {}}, .5, time.Now())
			}
			commit := func(id string) {
				require.NoError(t, other.Commit(t.Context(), id, &format.Archive{Backup: id, Manifest: format.NewManifest(nil)}))
			}
			commit("one")
			var others []string
			store.act = func() {
				id := fmt.Sprintf("other-%d", len(others))
				others = append(others, id)
				commit(id)
				require.NoError(t, record(other, id))
			}
			store.reads, store.writes = row.reads, row.writes
			require.Equal(t, row.conflict, failure.Is(record(r, "one"), failure.Conflict))
			require.Len(t, others, row.reads+row.writes)
			v, err := other.Verified(t.Context())
			require.NoError(t, err)
			for _, id := range others {
				require.InDelta(t, .5, v.Of(id, format.Digest{}).Unread, 1e-9, id)
			}
			require.Equal(t, row.conflict, v.Of("one", format.Digest{}).Unread > .5)
		})
	}
}

// The samples that docs/archive.md names keep the alert TisnapUnverified quiet: it fires if more than half was unread for
// 30 days.
func TestRecordVerified_WeeklySamplesOfTheDocs_Suffice(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/archive.md")
	require.NoError(t, err)
	const each = `a weekly sample of ([0-9]+)% suffices for daily archives\s+that are kept for 30 days, and of ([0-9]+)% for any`
	named := regexp.MustCompile(each).FindStringSubmatch(string(page))
	require.NotNil(t, named)
	for kept, percent := range map[int]string{30: named[1], 2: named[2], 7: named[2], 365: named[2]} {
		share, err := strconv.ParseFloat(percent, 64)
		require.NoError(t, err)
		store := objstoretest.NewMemory(nil)
		r, _, err := archivetest.New(t.Context(), store, 1<<20)
		require.NoError(t, err)
		var ids []string
		quiet := 0
		for day := range 100 {
			id := fmt.Sprintf("day-%d", day)
			require.NoError(t, r.Commit(t.Context(), id, &format.Archive{Backup: id, Manifest: format.NewManifest(nil)}))
			if ids = append(ids, id); len(ids) > kept {
				require.NoError(t, store.Delete(t.Context(), "archives/"+ids[0]))
				ids = ids[1:]
			}
			if day%7 == 6 {
				whole := map[string]format.Digest{}
				for _, id := range ids {
					whole[id] = format.Digest{}
				}
				require.NoError(t, r.RecordVerified(t.Context(), ids, whole, share/100, time.Now()))
			}
			v, err := r.Verified(t.Context())
			require.NoError(t, err)
			unread := 0.
			for _, id := range ids {
				unread += v.Of(id, format.Digest{}).Unread
			}
			if unread/float64(len(ids)) <= .5 {
				quiet = day
			}
			require.Less(t, day-quiet, 30, "%s%% of archives that are kept for %d days", percent, kept)
		}
	}
}
