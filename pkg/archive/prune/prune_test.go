package prune_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/retention"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hooked is a store that calls functions before each read of an object or list, and after each Get.
type hooked struct {
	*objstoretest.Memory
	before, after func(key string)
	refuse        string // objects that begin so cannot be created; "" is none
	unversioned   bool   // lists have no versions
}

func (h *hooked) Create(ctx context.Context, key string, body []byte) (objstore.Version, error) {
	if h.refuse != "" && strings.HasPrefix(key, h.refuse) {
		return "", failure.New(failure.Denied, "create object", key, "refused")
	}
	return h.Memory.Create(ctx, key, body)
}

func (h *hooked) GetRange(ctx context.Context, key string, offset int64, into []byte) error {
	if h.before != nil {
		h.before(key)
	}
	return h.Memory.GetRange(ctx, key, offset, into)
}

func (h *hooked) Get(ctx context.Context, key string) ([]byte, objstore.Version, error) {
	if h.before != nil {
		h.before(key)
	}
	object, version, err := h.Memory.Get(ctx, key)
	if h.after != nil {
		h.after(key)
	}
	return object, version, err
}

func (h *hooked) List(ctx context.Context, prefix string) ([]objstore.Object, error) {
	if h.before != nil {
		h.before(prefix)
	}
	objects, err := h.Memory.List(ctx, prefix)
	if h.unversioned {
		for i := range objects {
			objects[i].Version = ""
		}
	}
	return objects, err
}

// once calls do before the n-th read of what begins with prefix.
func (h *hooked) once(prefix string, n int, do func()) {
	h.before = func(key string) {
		if strings.HasPrefix(key, prefix) {
			if n--; n == 0 {
				h.before = nil
				do()
			}
		}
	}
}

// now leaves nothing out as too young, and breaks no lease.
func now() prune.Options { return prune.Options{MinAge: -time.Hour, BreakAfter: -1, MaxUnused: 1} }

type lab struct {
	*hooked
	repo *repository.Repository
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{hooked: &hooked{Memory: objstoretest.NewMemory(nil)}}
	var err error
	l.repo, _, err = archivetest.New(t.Context(), l, 2<<20)
	require.NoError(t, err)
	return l
}

// A storage that lists no versions has archives nevertheless: what they refer to stays.
func TestRun_ListsHaveNoVersions_KeepsWhatIsInUse(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	kept, old := l.put(t, "kept", 1), l.put(t, "old", 2)
	l.forget(t, "old")
	l.unversioned = true
	_, err := prune.Run(t.Context(), l.repo, now())
	require.NoError(t, err)
	require.True(t, l.has(t, kept))
	require.False(t, l.has(t, old))
}

// put commits an archive of one block in a pack of its own.
func (l *lab) put(t *testing.T, id string, ts cluster.TS) format.PackName {
	t.Helper()
	places, err := pack(t.Context(), l.repo, id, 1)
	require.NoError(t, err)
	place := places[0]
	name, err := l.repo.PutSegment(t.Context(), format.Segment{place})
	require.NoError(t, err)
	require.NoError(t, l.repo.Commit(t.Context(), id, &format.Archive{
		Backup: id, BackupTS: uint64(ts), Cluster: "tidb/prod", Manifest: format.NewManifest(nil),
		Stores: []format.Store{{ID: 1, Volumes: []format.Volume{{
			Role: "data", Size: 512, Segments: []format.SegmentName{name}, Counts: format.Counts{Saved: 1},
		}}}},
	}))
	return place.Pack.Name
}

func (l *lab) has(t *testing.T, p format.PackName) bool {
	t.Helper()
	all, err := l.Memory.List(t.Context(), p.Path())
	require.NoError(t, err)
	return len(all) == 1
}

func (l *lab) forget(t *testing.T, id string) {
	t.Helper()
	require.NoError(t, prune.Forget(t.Context(), l.repo, id))
}

// What no archive refers to is deleted, with its map, and the rest stays.
func TestRun_ForgottenArchive_IsDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	old, kept := l.put(t, "old", 1), l.put(t, "new", 2)
	l.forget(t, "old")
	l.forget(t, "old")
	dry := now()
	dry.DryRun = true
	report, err := prune.Run(t.Context(), l.repo, dry)
	require.NoError(t, err)
	require.EqualValues(t, 1, report.Garbage.Packs)
	require.EqualValues(t, 1, report.Garbage.Segments)
	require.True(t, l.has(t, old))
	again, err := prune.Run(t.Context(), l.repo, now())
	require.NoError(t, err)
	require.Equal(t, report.Garbage, again.Deleted)
	require.Equal(t, 1, again.Archives)
	require.False(t, l.has(t, old))
	require.True(t, l.has(t, kept))
	require.Error(t, l.repo.Commit(t.Context(), "old", &format.Archive{Manifest: format.NewManifest(nil)}))
}

// A writer that has a lease and commits while the archives are read, after its own was not there, keeps what it wrote.
func TestRun_WriterCommitsMeanwhile_DeletesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, err := lease.Write(t.Context(), l.Memory, "a", "run")
	require.NoError(t, err)
	places, err := pack(t.Context(), l.repo, "a", 1)
	require.NoError(t, err)
	place := places[0]
	name, err := l.repo.PutSegment(t.Context(), format.Segment{place})
	require.NoError(t, err)
	key := place.Pack.Name.Path()
	require.NoError(t, lease.Condemn(t.Context(), l.Memory, []lease.Object{{Key: key, Size: 1}}))
	l.once(format.LeasePrefix, 3, func() { // after the list, and the lease, of the first look
		require.NoError(t, l.repo.Commit(t.Context(), "a", &format.Archive{
			Backup: "a", Manifest: format.NewManifest(nil), Stores: []format.Store{{ID: 1, Volumes: []format.Volume{{
				Role: "data", Size: 512, Segments: []format.SegmentName{name}, Counts: format.Counts{Saved: 1},
			}}}},
		}))
		require.NoError(t, lease.End(t.Context(), l.Memory, "a"))
	})
	_, err = prune.Run(t.Context(), l.repo, prune.Options{MinAge: 1000 * time.Hour, BreakAfter: -1, MaxUnused: 1})
	require.NoError(t, err)
	require.True(t, l.has(t, place.Pack.Name))
}

// A reader that began after the first look at the leases, while an archive was still there, keeps what it found.
func TestRun_ReaderBeginsMeanwhile_DeletesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	old := l.put(t, "old", 1)
	l.forget(t, "old")
	require.NoError(t, lease.Condemn(t.Context(), l.Memory, []lease.Object{{Key: old.Path(), Size: 1}}))
	l.once(format.ArchivePrefix, 1, func() {
		_, err := lease.Read(t.Context(), l.Memory, "restore")
		require.NoError(t, err)
	})
	report, err := prune.Run(t.Context(), l.repo, now())
	require.NoError(t, err)
	require.NotEmpty(t, report.Waiting)
	require.True(t, l.has(t, old))
}

// Another prune ends the list, since an archive refers to the pack; a new one, which need not know the list, takes it
// over. The prune that is late deletes nothing.
func TestRun_ListIsEndedMeanwhile_DeletesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	old := l.put(t, "old", 1)
	l.forget(t, "old")
	require.NoError(t, lease.Condemn(t.Context(), l.Memory, []lease.Object{{Key: old.Path(), Size: 1}}))
	lists, err := lease.Lists(t.Context(), l.Memory)
	require.NoError(t, err)
	l.once(format.ArchivePrefix, 1, func() { require.NoError(t, lease.Finish(t.Context(), l.Memory, lists[0])) })
	o := now()
	o.MinAge = 1000 * time.Hour // it condemns nothing itself
	_, err = prune.Run(t.Context(), l.repo, o)
	require.NoError(t, err)
	require.True(t, l.has(t, old))
}

// What was condemned and is referred to by the time stays.
func TestRun_CondemnedIsReferredTo_Stays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	used := l.put(t, "a", 1)
	require.NoError(t, lease.Condemn(t.Context(), l.Memory, []lease.Object{{Key: used.Path(), Size: 1}}))
	report, err := prune.Run(t.Context(), l.repo, now())
	require.NoError(t, err)
	require.EqualValues(t, 1, report.Kept.Packs)
	require.True(t, l.has(t, used))
}

// While an archive or its map cannot be read, what is garbage is unknown.
func TestRun_UnreadableArchiveOrMap_DeletesNothing(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{format.ArchivePrefix + "bad", format.SegmentPrefix} {
		t.Run(strings.TrimSuffix(prefix, "/"), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.put(t, "bad", 1)
			objects, err := l.Memory.List(t.Context(), prefix)
			require.NoError(t, err)
			_, err = l.Replace(t.Context(), objects[0].Key, []byte(strings.Repeat("x", 200)), objects[0].Version)
			require.NoError(t, err)
			old := l.put(t, "old", 1)
			l.forget(t, "old")
			_, err = prune.Run(t.Context(), l.repo, now())
			require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
			require.Contains(t, failure.HintOf(err), "forget bad")
			if prefix == format.SegmentPrefix { // a map that is missing is no other kind of error
				require.NoError(t, l.Memory.Delete(t.Context(), objects[0].Key))
				_, err = prune.Run(t.Context(), l.repo, now())
				require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
			}
			require.True(t, l.has(t, old))
			l.forget(t, "bad")
			_, err = prune.Run(t.Context(), l.repo, now())
			require.NoError(t, err)
			require.False(t, l.has(t, old))
		})
	}
}

// A prune that was killed after it had condemned is continued.
func TestRun_KilledAfterCondemning_IsContinued(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	old := l.put(t, "old", 1)
	l.forget(t, "old")
	ctx, cancel := context.WithCancel(t.Context())
	l.once(format.CondemnedPrefix, 2, cancel) // it looks at its own list
	_, err := prune.Run(ctx, l.repo, now())
	require.Error(t, err)
	require.True(t, l.has(t, old))
	_, err = lease.Read(t.Context(), l.Memory, "restore")
	require.NoError(t, err)
	dry := now()
	dry.DryRun = true
	report, err := prune.Run(t.Context(), l.repo, dry)
	require.NoError(t, err)
	require.EqualValues(t, 1, report.Garbage.Packs)
	require.Len(t, report.Waiting, 1)
	require.Contains(t, report.Waiting[0].Leases[0], "restore")
	o := now()
	o.BreakAfter = 0
	report, err = prune.Run(t.Context(), l.repo, o)
	require.NoError(t, err)
	require.EqualValues(t, 1, report.Deleted.Packs)
	require.False(t, l.has(t, old))
}

// A lease that looks dead is broken, and one that is only left over ends in any case.
func TestRun_DeadLeases_AreEnded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, err := lease.Write(t.Context(), l.Memory, "a", "left over")
	require.NoError(t, err)
	l.put(t, "a", 1)
	_, err = lease.Write(t.Context(), l.Memory, "b", "dead")
	require.NoError(t, err)
	_, err = prune.Run(t.Context(), l.repo, now())
	require.NoError(t, err)
	left, err := lease.All(t.Context(), l.Memory)
	require.NoError(t, err)
	require.Len(t, left, 1)
	o := now()
	o.BreakAfter = 0
	report, err := prune.Run(t.Context(), l.repo, o)
	require.NoError(t, err)
	require.Equal(t, []string{format.LeasePrefix + "b"}, report.Broken)
	_, err = l.repo.Archive(t.Context(), "a")
	require.NoError(t, err)
}

// Objects of a run under way are not condemned, which would only be looked at in vain.
func TestRun_YoungerThanAWriter_IsLeftOut(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	_, err := lease.Write(t.Context(), l.Memory, "a", "run")
	require.NoError(t, err)
	l.put(t, "old", 1)
	l.forget(t, "old")
	report, err := prune.Run(t.Context(), l.repo, prune.Options{BreakAfter: -1, MaxUnused: 1})
	require.NoError(t, err)
	require.Zero(t, report.Garbage)
	require.EqualValues(t, 1, report.Young.Packs)
}

// Of each cluster the rules keep what they keep of backups, and the newest.
func TestDecide_ByTheBackupsTime(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	day := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for i, id := range []string{"a", "b", "c"} {
		l.put(t, id, cluster.MakeTS(day.AddDate(0, 0, i), 0))
	}
	_, err := l.Create(t.Context(), format.ArchivePrefix+"bad", []byte("x"))
	require.NoError(t, err)
	decisions, err := prune.Decide(t.Context(), l.repo, retention.Policy{Last: 2})
	require.NoError(t, err)
	var forget, kept []string
	for _, d := range decisions {
		if d.Forget {
			forget = append(forget, d.ID)
		} else {
			kept = append(kept, d.ID)
		}
		require.NotEmpty(t, d.Reason)
	}
	require.Equal(t, []string{"a"}, forget)
	require.ElementsMatch(t, []string{"b", "c", "bad"}, kept)
}
