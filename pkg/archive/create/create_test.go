package create_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/create"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// sparse is a volume in memory.
type sparse struct {
	mu     sync.Mutex
	blocks map[int64][]byte
}

func (s *sparse) Write(_ context.Context, index int64, block []byte, _ format.Digest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocks == nil {
		s.blocks = map[int64][]byte{}
	}
	s.blocks[index] = bytes.Clone(block)
	return nil
}

func (s *sparse) block(index int64) []byte { return s.blocks[index] }

// span are n consecutive indexes.
func span(from, n int64) (out []int64) {
	for i := range n {
		out = append(out, from+i)
	}
	return out
}

// The second archive reads the blocks that changed since the first one's snapshots, and both outlive all snapshots.
func TestRun_SecondBackup_ReadsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 20)...)
	l.write(t, 1, span(100, 12)...)
	first := l.archive(t, l.backup(t), "run-1")
	require.EqualValues(t, 32, first.Spent.Reads)
	require.Equal(t, volume.Stats{Read: 32, Packed: 32}, sum(first))
	l.write(t, 0, 3, 700)
	second := l.archive(t, l.backup(t), "run-2")
	require.Equal(t, first.Archive, second.Base)
	require.Equal(t, create.WithSnapshot, second.Volumes[0].Compared)
	require.EqualValues(t, 2, second.Spent.Reads)
	require.Equal(t, volume.Stats{Read: 2, Packed: 2}, sum(second))
	l.requireWhole(t, first.Archive)
	l.requireWhole(t, second.Archive)
}

// Without the base's snapshots all blocks are read, and only those that differ are stored.
func TestRun_SnapshotsOfTheBaseAreGone_ComparesByPosition(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 20)...)
	first := l.archive(t, l.backup(t), "run-1")
	for id := range l.want {
		require.NoError(t, l.ec2.DeleteSnapshot(t.Context(), id))
	}
	l.write(t, 0, 3)
	second := l.archive(t, l.backup(t), "run-2")
	require.Equal(t, create.WithArchive, second.Volumes[0].Compared)
	require.Equal(t, volume.Stats{Read: 20, Unchanged: 19, Packed: 1}, sum(second))
	l.requireWhole(t, second.Archive)

	o := l.options("two", "run-3")
	o.Base = create.NoBase
	third, err := create.Run(t.Context(), l.deps(l.open(t)), o)
	require.NoError(t, err)
	require.Empty(t, third.Base)
	require.EqualValues(t, 20, sum(third).Packed)
	l.requireWhole(t, third.Archive)
	require.NotEqual(t, first.Archive, third.Archive)
}

// A backup that is archived already is archived again without reading a block.
func TestRun_SameBackupAgain_ReadsNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 20)...)
	backup := l.backup(t)
	l.archive(t, backup, "run-1")
	again := l.archive(t, backup, "run-2")
	require.Equal(t, create.WithItself, again.Volumes[0].Compared)
	require.Zero(t, again.Spent.Reads)
	l.requireWhole(t, again.Archive)
}

// Wherever a run is stopped, the same command resumes it: it reads again what was in no stored pack.
func TestRun_Stopped_ResumesWithWhatIsStored(t *testing.T) {
	t.Parallel()
	const total = 60
	for _, reads := range []int{0, 1, 25, 59} {
		t.Run(fmt.Sprint(reads), func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.write(t, 0, span(0, 40)...)
			l.write(t, 1, span(500, total-40)...)
			backup := l.backup(t)
			result := l.stopped(t, reads, l.options(backup, "run-1"))
			require.False(t, result.Committed)
			stored := len(l.packs(t)) * perPack

			direct := l.open(t)
			resumed, err := create.Run(t.Context(), l.deps(direct), l.options(backup, "run-1"))
			require.NoError(t, err)
			require.Equal(t, result.Archive, resumed.Archive, "it was chosen by the first process")
			require.EqualValues(t, total-stored, direct.Stats().Reads)
			require.EqualValues(t, total, sum(resumed).Packed)
			l.requireWhole(t, resumed.Archive)
			all, err := l.repo.Archives(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{resumed.Archive}, all)
		})
	}
}

// The first pack of a volume is still being uploaded when the run stops in the next volume: of the first volume, only
// the blocks of that pack are read again.
func TestRun_PackWasNotStored_ItsBlocksAreReadAgain(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 40)...)
	l.write(t, 1, span(500, 20)...)
	backup := l.backup(t)
	l.objects.stallOnce.Store(true)
	l.stopped(t, 59, l.options(backup, "run-1"))
	stored := len(l.packs(t))
	require.GreaterOrEqual(t, stored, 4, "all of the first volume's packs but one")
	direct := l.open(t)
	resumed, err := create.Run(t.Context(), l.deps(direct), l.options(backup, "run-1"))
	require.NoError(t, err)
	require.EqualValues(t, 60-stored*perPack, direct.Stats().Reads)
	l.requireWhole(t, resumed.Archive)
}

func TestRun_BackupCannotBeArchived_Refused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(t *testing.T, l *lab, o *create.Options)
		kind    failure.Kind
		message string
	}{
		"being deleted": {func(t *testing.T, l *lab, _ *create.Options) {
			require.NoError(t, catalog.Catalog{Store: l.store}.Bury(t.Context(), "one", "", "by a test", false))
		}, failure.NotFound, "it is being removed"},
		"snapshot is gone": {func(t *testing.T, l *lab, _ *create.Options) {
			for id := range l.want {
				require.NoError(t, l.ec2.DeleteSnapshot(t.Context(), id))
			}
		}, failure.Unready, "2 of 2 cannot be read"},
		"snapshots are in the archive tier": {func(t *testing.T, l *lab, _ *create.Options) {
			for id := range l.want {
				require.NoError(t, l.account.ArchiveSnapshot(id))
			}
		}, failure.Unready, "is in the archive tier"},
		"snapshots are on an Outpost": {func(t *testing.T, l *lab, _ *create.Options) {
			for id := range l.want {
				require.NoError(t, l.account.PutSnapshotOnOutpost(id, "arn:aws:outposts:us-west-2:1:outpost/op-1"))
			}
		}, failure.Unready, "is on an Outpost"},
		"another cluster's": {func(_ *testing.T, _ *lab, o *create.Options) {
			o.Cluster = cluster.Name{Namespace: "tidb", Name: "other"}
		}, failure.Conflict, "it is of cluster tidb/prod"},
		"unknown base":     {func(_ *testing.T, _ *lab, o *create.Options) { o.Base = "nothing" }, failure.NotFound, "nothing"},
		"too many packers": {func(_ *testing.T, _ *lab, o *create.Options) { o.Packers = 65 }, failure.Usage, "packers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.write(t, 0, 1)
			o := l.options(l.backup(t), "run-1")
			test.prepare(t, l, &o)
			_, err := create.Run(t.Context(), l.deps(l.open(t)), o)
			require.Equal(t, test.kind, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, test.message)
			archived := strings.Contains(test.message, "archive tier")
			require.Equal(t, archived, strings.Contains(failure.HintOf(err), "aws ec2 restore-snapshot-tier --region "+region))
		})
	}
}

// A dry run counts the blocks, and writes nothing.
func TestEstimate_CountsWhatWouldBeRead(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 20)...)
	backup := l.backup(t)
	before := len(l.packs(t))
	plan, err := create.Estimate(t.Context(), l.deps(l.open(t)), l.options(backup, "run-1"), 1000)
	require.NoError(t, err)
	require.EqualValues(t, 20, plan.Blocks)
	require.InDelta(t, 0.02, plan.Seconds, 1e-9)
	require.EqualValues(t, 3, plan.Spent.Packs)
	require.Len(t, plan.Volumes, 2)
	require.Len(t, l.packs(t), before)
	runs, err := l.store.List(t.Context(), "runs/")
	require.NoError(t, err)
	require.Empty(t, runs)
}

// While an archive of the cluster is being made, another one is refused; a backup of it would not be.
func TestRun_AnotherArchiveOfTheCluster_Refused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, 1)
	backup := l.backup(t)
	about := journal.About{Operation: journal.Archive, Cluster: l.source.Cluster}
	require.NotEqual(t, l.source.Cluster, about.Lock())
	lock, err := runlock.Acquire(t.Context(), l.store, about.Lock(), runlock.NewOwner("run-0", "archive"), time.Minute)
	require.NoError(t, err)
	o := l.options(backup, "run-1")
	o.LockWait = runlock.NoWait
	_, err = create.Run(t.Context(), l.deps(l.open(t)), o)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.NoError(t, lock.Release(t.Context()))
	l.archive(t, backup, "run-1")
}
