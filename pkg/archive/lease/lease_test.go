package lease_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	pack    = format.NewPackName().Path()
	segment = format.SegmentName{7}.Path()
)

func condemned(keys ...string) (out []lease.Object) {
	for _, key := range keys {
		out = append(out, lease.Object{Key: key, Size: 7})
	}
	return out
}

func only(t *testing.T, store *objstoretest.Memory) lease.Other {
	t.Helper()
	all, err := lease.All(t.Context(), store)
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

// A writer whose lease was broken cannot commit, renew or resume: a tombstone has its archive's place.
func TestBreak_Writer_CannotCommit(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	l, err := lease.Write(t.Context(), store, "a-1", "run")
	require.NoError(t, err)
	_, err = lease.Write(t.Context(), store, "a-1", "another")
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	other := only(t, store)
	require.Equal(t, "run", other.Owner)
	decided, err := other.Decided(t.Context(), store)
	require.NoError(t, err)
	require.False(t, decided)
	require.NoError(t, other.Break(t.Context(), store, nil))
	_, err = store.Create(t.Context(), format.ArchivePrefix+"a-1", []byte("an archive"))
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	require.True(t, failure.Is(l.Renew(t.Context()), failure.Conflict))
	_, err = lease.Resume(t.Context(), store, "a-1")
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	require.NotEmpty(t, failure.HintOf(err))
}

// What is committed stays, whoever ends the lease.
func TestBreak_CommittedWriter_KeepsTheArchive(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	_, err := lease.Write(t.Context(), store, "a-1", "run")
	require.NoError(t, err)
	_, err = store.Create(t.Context(), format.ArchivePrefix+"a-1", []byte("an archive"))
	require.NoError(t, err)
	other := only(t, store)
	decided, err := other.Decided(t.Context(), store)
	require.NoError(t, err)
	require.True(t, decided)
	require.NoError(t, other.Break(t.Context(), store, nil))
	text, _, err := store.Get(t.Context(), format.ArchivePrefix+"a-1")
	require.NoError(t, err)
	require.Equal(t, "an archive", string(text))
}

// A conditional write that meets another one fails, and so may the other: then nothing is decided, and the lease stays.
func TestBreak_WriteMeetsAnother_IsAConflictAndTheLeaseStays(t *testing.T) {
	t.Parallel()
	plan := &fault.Plan{}
	store := objstoretest.NewMemory(plan)
	_, err := lease.Write(t.Context(), store, "a-1", "run")
	require.NoError(t, err)
	require.NoError(t, plan.Add(fault.Rule{Point: "s3.PutObject", Code: "ConditionalRequestConflict"}))
	other := only(t, store)
	require.True(t, failure.Is(other.Break(t.Context(), store, nil), failure.Conflict))
	require.Equal(t, other.Key, only(t, store).Key)
	require.NoError(t, other.Break(t.Context(), store, nil))
}

// Who renews in time keeps the lease, and another process of the run may renew it, too.
func TestBreak_RenewedMeanwhile_IsAConflict(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	l, err := lease.Read(t.Context(), store, "verify")
	require.NoError(t, err)
	seen := only(t, store)
	require.True(t, seen.Silent(0))
	require.False(t, seen.Silent(time.Hour))
	require.NoError(t, l.Renew(t.Context()))
	require.True(t, failure.Is(seen.Break(t.Context(), store, nil), failure.Conflict))
	require.NoError(t, l.Release(t.Context()))
	require.True(t, failure.Is(l.Release(t.Context()), failure.Conflict), "it is gone")
}

func TestResume_TwoProcesses_BothRenew(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	l, err := lease.Write(t.Context(), store, "a-1", "run")
	require.NoError(t, err)
	again, err := lease.Resume(t.Context(), store, "a-1")
	require.NoError(t, err)
	require.NoError(t, l.Renew(t.Context()))
	require.NoError(t, again.Renew(t.Context()))
}

// Parts of lists that died are deleted, whether or not their epoch had begun; those of others are not.
func TestTidy_PartsOfNoList_AreDeleted(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	require.NoError(t, lease.Condemn(t.Context(), store, condemned(pack)))
	for _, part := range []string{"1-ended", "2-begun", "3-begun", "foreign"} {
		_, err := store.Create(t.Context(), format.CondemnedPrefix+part, nil)
		require.NoError(t, err)
	}
	require.NoError(t, lease.Tidy(t.Context(), store))
	require.NoError(t, lease.Tidy(t.Context(), store))
	left, err := store.List(t.Context(), format.CondemnedPrefix)
	require.NoError(t, err)
	require.Len(t, left, 2)
	known, err := lease.ReadCondemned(t.Context(), store)
	require.NoError(t, err)
	require.True(t, known.Has(pack))
}

// prunes is a store in which another prune tidies right before the epoch is changed.
type prunes struct {
	*objstoretest.Memory
	tidied error
}

func (p *prunes) Replace(ctx context.Context, key string, body []byte, old objstore.Version) (objstore.Version, error) {
	if key == format.EpochPath {
		p.tidied = lease.Tidy(ctx, p.Memory)
	}
	return p.Memory.Replace(ctx, key, body, old)
}

// A prune whose parts were taken for those of a dead one does not begin an epoch with them.
func TestTidy_PruneLives_BeginsNoEpochWithWhatIsGone(t *testing.T) {
	t.Parallel()
	store := &prunes{Memory: objstoretest.NewMemory(nil)}
	require.NoError(t, lease.Condemn(t.Context(), store.Memory, condemned(pack)))
	err := lease.Condemn(t.Context(), store, condemned(segment))
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	require.NoError(t, store.tidied)
	known, err := lease.ReadCondemned(t.Context(), store.Memory)
	require.NoError(t, err)
	require.True(t, known.Has(pack))
}

// A rewriter cannot renew its lease any more before the archives are sealed again, also where a delete takes no version;
// whoever finds that begun continues with it.
func TestBreak_Rewriter_CannotRenew(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	l, err := lease.Rewrite(t.Context(), store, "prune")
	require.NoError(t, err)
	died := failure.New(failure.Unknown, "seal", "", "died")
	for _, end := range []error{died, nil} {
		other := only(t, store)
		require.True(t, other.Rewriter)
		require.Equal(t, end == nil, other.Broken)
		err := other.Break(t.Context(), store, func(context.Context) error {
			require.True(t, failure.Is(l.Renew(t.Context()), failure.Conflict))
			return end
		})
		require.Equal(t, end != nil, failure.Is(err, failure.Unknown))
	}
	all, err := lease.All(t.Context(), store)
	require.NoError(t, err)
	require.Empty(t, all)
}

// One that was renewed meanwhile is kept, and nothing is sealed again.
func TestBreak_RewriterRenewedMeanwhile_IsAConflict(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	l, err := lease.Rewrite(t.Context(), store, "prune")
	require.NoError(t, err)
	seen := only(t, store)
	require.NoError(t, l.Renew(t.Context()))
	require.True(t, failure.Is(seen.Break(t.Context(), store, nil), failure.Conflict))
	require.NoError(t, l.Release(t.Context()))
}

// A lease that cannot be read is never broken, and all lists wait for it.
func TestAll_UnreadableLease_BlocksEverything(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	_, err := store.Create(t.Context(), format.LeasePrefix+"x", []byte("{"))
	require.NoError(t, err)
	other := only(t, store)
	require.Error(t, other.Err)
	require.True(t, other.Blocks(lease.List{Epoch: 1}))
	require.False(t, other.Silent(0))
	require.Error(t, other.Break(t.Context(), store, nil))
}

// Writers know what was condemned before, and later lists wait for them. Readers block what is condemned already, too.
func TestCondemn_Leases_ByEpoch(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	require.NoError(t, lease.Condemn(t.Context(), store, condemned(pack, segment)))
	lists, err := lease.Lists(t.Context(), store)
	require.NoError(t, err)
	require.Len(t, lists, 1)

	_, err = lease.Write(t.Context(), store, "a-1", "run")
	require.NoError(t, err)
	known, err := lease.ReadCondemned(t.Context(), store)
	require.NoError(t, err)
	require.True(t, known.Has(pack))
	require.True(t, known.Has(segment))
	require.False(t, known.Empty())
	writer := only(t, store)
	require.False(t, writer.Blocks(lists[0]), "it knows of it")
	require.True(t, writer.Blocks(lease.List{Epoch: 2}))
	require.NoError(t, lease.End(t.Context(), store, "a-1"))

	_, err = lease.Read(t.Context(), store, "verify")
	require.NoError(t, err)
	reader := only(t, store)
	require.True(t, reader.Blocks(lists[0]))

	require.NoError(t, lease.Finish(t.Context(), store, lists[0]))
	require.NoError(t, lease.Finish(t.Context(), store, lists[0]), "again")
	stands, err := lease.Stands(t.Context(), store, lists[0])
	require.NoError(t, err)
	require.False(t, stands)
	known, err = lease.ReadCondemned(t.Context(), store)
	require.NoError(t, err)
	require.True(t, known.Empty())
	left, err := store.List(t.Context(), format.CondemnedPrefix)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestObjects_OfAnArchive_AreRefused(t *testing.T) {
	t.Parallel()
	for _, key := range []string{format.ArchivePrefix + "a-1", format.RepositoryPath, "packs/aa/x", "segs/..", ""} {
		t.Run(strings.ReplaceAll(key, "/", "-"), func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			require.NoError(t, lease.Condemn(t.Context(), store, condemned(pack, key)))
			lists, err := lease.Lists(t.Context(), store)
			require.NoError(t, err)
			_, err = lists[0].Objects(t.Context(), store)
			require.True(t, failure.Is(err, failure.Corrupt), "%v", err)
		})
	}
}

func TestCondemn_TooManyWait_IsRefused(t *testing.T) {
	t.Parallel()
	store := objstoretest.NewMemory(nil)
	for range lease.MaxLists {
		require.NoError(t, lease.Condemn(t.Context(), store, condemned(pack)))
	}
	err := lease.Condemn(t.Context(), store, condemned(pack))
	require.True(t, failure.Is(err, failure.Unready), "%v", err)
}

// A kept lease is renewed, and who keeps it learns within an hour that it was broken.
func TestKeep_RenewsUntilBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := objstoretest.NewMemory(nil)
		l, err := lease.Read(t.Context(), store, "restore")
		require.NoError(t, err)
		ctx, stop := l.Keep(t.Context(), lease.RenewEvery)
		defer stop()
		<-time.After(90 * time.Minute)
		synctest.Wait()
		other := only(t, store)
		require.False(t, other.Silent(time.Hour))
		require.NoError(t, other.Break(t.Context(), store, nil))
		require.NoError(t, ctx.Err())
		<-time.After(time.Hour)
		<-ctx.Done()
		require.True(t, failure.Is(context.Cause(ctx), failure.Conflict))
	})
}

// maps are map segments.
type maps map[format.SegmentName]format.Segment

func (m maps) Segment(_ context.Context, name format.SegmentName) (format.Segment, error) {
	return m[name], nil
}

// What was not read counts as condemned, and never as none.
func TestCondemned_NotRead_HasAll(t *testing.T) {
	t.Parallel()
	for _, known := range []*lease.Condemned{nil, {}} {
		require.True(t, known.Has(pack))
		require.False(t, known.Empty())
		may, err := known.Allows(t.Context(), maps{}, []format.SegmentName{{7}})
		require.NoError(t, err)
		require.False(t, may)
	}
	known, err := lease.ReadCondemned(t.Context(), objstoretest.NewMemory(nil))
	require.NoError(t, err)
	require.False(t, known.Has(pack))
	require.True(t, known.Empty())
}

// A client refers neither to a condemned segment nor to one of a condemned pack.
func TestAllows_CondemnedPackOrSegment_IsRefused(t *testing.T) {
	t.Parallel()
	name, ref := format.SegmentName{7}, format.PackRef{Name: format.NewPackName()}
	all := maps{name: {{State: format.Zero}, {State: format.Saved, Pack: ref}}}
	for key, allowed := range map[string]bool{
		pack: true, format.SegmentName{8}.Path(): true, name.Path(): false, ref.Name.Path(): false,
	} {
		t.Run(strings.ReplaceAll(key, "/", "-"), func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			require.NoError(t, lease.Condemn(t.Context(), store, condemned(key)))
			known, err := lease.ReadCondemned(t.Context(), store)
			require.NoError(t, err)
			may, err := known.Allows(t.Context(), all, []format.SegmentName{name})
			require.NoError(t, err)
			require.Equal(t, allowed, may)
		})
	}
}
