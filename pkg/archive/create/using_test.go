package create_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/create"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/lease"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
)

// leases are those in the repository.
func (l *lab) leases(t *testing.T) []lease.Other {
	t.Helper()
	all, err := lease.All(t.Context(), l.objects)
	require.NoError(t, err)
	return all
}

// A run has a lease until it has committed, over all of its processes.
func TestRun_Stopped_KeepsItsLease(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 40)...)
	backup := l.backup(t)
	stopped := l.stopped(t, 20, l.options(backup, "run-1"))
	require.Len(t, l.leases(t), 1)
	require.Equal(t, stopped.Archive, l.leases(t)[0].Archive)
	l.archive(t, backup, "run-1")
	require.Empty(t, l.leases(t))
}

// A run that was stopped before it had chosen its base is resumed.
func TestRun_StoppedWithItsLease_ChoosesABase(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 4)...)
	first := l.archive(t, l.backup(t), "run-1")
	backup := l.backup(t)
	ctx, stop := context.WithCancel(t.Context())
	l.objects.before = func(key string) {
		if strings.HasPrefix(key, format.LeasePrefix) {
			stop()
		}
	}
	_, err := create.Run(ctx, l.deps(l.open(t)), l.options(backup, "run-2"))
	require.Error(t, err)
	l.objects.before = nil
	second := l.archive(t, backup, "run-2")
	require.Equal(t, first.Archive, second.Base)
	l.requireWhole(t, second.Archive)
}

// A run whose lease was broken while it was stopped starts over with another archive, which refers to nothing that only the
// first one had. It can be stopped and resumed like any other.
func TestRun_LeaseIsBroken_StartsOver(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 500)...)
	backup := l.backup(t)
	first := l.stopped(t, 400, l.options(backup, "run-1"))
	broken := l.leases(t)[0]
	require.NoError(t, broken.Break(t.Context(), l.objects, nil))
	before := l.packs(t)
	require.NotEmpty(t, before)
	second := l.stopped(t, 300, l.options(backup, "run-1"))
	require.NotEqual(t, first.Archive, second.Archive)
	third := l.archive(t, backup, "run-1")
	require.Equal(t, second.Archive, third.Archive)
	l.requireWhole(t, third.Archive)
	require.Empty(t, l.leases(t))
	for _, name := range before { // as a prune would
		require.NoError(t, l.objects.Memory.Delete(t.Context(), name))
	}
	l.requireWhole(t, third.Archive)
}

// A run that has committed does not start over, whatever became of its lease.
func TestRun_LeaseIsBrokenAfterTheCommit_Ends(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 4)...)
	backup := l.backup(t)
	ctx, stop := context.WithCancel(t.Context())
	l.objects.before = func(key string) {
		if strings.HasPrefix(key, format.ArchivePrefix) {
			l.objects.keepsOnce, l.objects.before = stop, nil
		}
	}
	made, err := create.Run(ctx, l.deps(l.open(t)), l.options(backup, "run-1"))
	require.Error(t, err)
	broken := l.leases(t)[0]
	require.NoError(t, broken.Break(t.Context(), l.objects, nil))
	again := l.archive(t, backup, "run-1")
	require.Equal(t, made.Archive, again.Archive)
	l.requireWhole(t, again.Archive)
}

// A lease that is broken while blocks are read ends the run with that reason, not with a context that was cancelled.
func TestRun_LeaseIsBrokenWhileItReads_EndsWithTheReason(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 40)...)
	backup := l.backup(t)
	o := l.options(backup, "run-1")
	o.RenewEvery(time.Millisecond)
	_, err := create.Run(t.Context(), l.deps(&breaking{Client: l.open(t), lab: l, t: t}), o)
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	require.ErrorContains(t, err, "a prune broke it")
	require.Contains(t, failure.HintOf(err), "run the same command again")
	l.requireWhole(t, l.archive(t, backup, "run-1").Archive)
}

// breaking breaks the run's lease with the first block that is read. No block comes then.
type breaking struct {
	*ebsdirect.Client
	lab  *lab
	t    *testing.T
	once sync.Once
}

func (b *breaking) Read(ctx context.Context, _ ebsdirect.Block, _ []byte) (ebsdirect.Sum, error) {
	b.once.Do(func() {
		for { // it may be renewed in between
			all, err := lease.All(b.t.Context(), b.lab.objects)
			if err != nil || len(all) != 1 || all[0].Break(b.t.Context(), b.lab.objects, nil) == nil {
				return
			}
		}
	})
	<-ctx.Done()
	return ebsdirect.Sum{}, ctx.Err()
}

// A lease that is broken while its process is stopped, after it stored everything, keeps it from committing.
func TestRun_LeaseIsBrokenBeforeTheCommit_FailsClosed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 4)...)
	backup := l.backup(t)
	l.objects.before = func(key string) {
		if !strings.HasPrefix(key, format.ArchivePrefix) {
			return
		}
		l.objects.before = nil
		broken := l.leases(t)[0]
		require.NoError(t, broken.Break(t.Context(), l.objects, nil))
	}
	_, err := create.Run(t.Context(), l.deps(l.open(t)), l.options(backup, "run-1"))
	require.True(t, failure.Is(err, failure.Conflict), "%v", err)
	ids, err := l.repo.Archives(t.Context())
	require.NoError(t, err)
	require.Empty(t, ids)
}

// What a prune condemned before the run's lease is stored again, although the base has it, also if it could not be read
// at first, when the run had its lease already.
func TestRun_BaseIsCondemned_RefersToNoneOfIt(t *testing.T) { //nolint:tparallel // the parts share a repository
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 20)...)
	l.write(t, 1, span(0, 20)...)
	backup := l.backup(t)
	first := l.archive(t, backup, "run-1")
	a, err := l.repo.Archive(t.Context(), first.Archive)
	require.NoError(t, err)
	s, err := l.repo.Segment(t.Context(), a.Stores[0].Volumes[0].Segments[0])
	require.NoError(t, err)
	require.NoError(t, lease.Condemn(t.Context(), l.objects, []lease.Object{
		{Key: s[0].Pack.Name.Path()}, {Key: a.Stores[1].Volumes[0].Segments[0].Path()},
	}))
	for _, slowDown := range []bool{false, true} {
		t.Run(fmt.Sprint(slowDown), func(t *testing.T) {
			l.objects.slowDown.Store(slowDown)
			o := l.options(backup, cluster.RunID(fmt.Sprint("run-2-", slowDown)))
			o.Base = first.Archive
			again, err := create.Run(t.Context(), l.deps(l.open(t)), o)
			require.NoError(t, err)
			require.False(t, l.objects.slowDown.Load())
			require.Equal(t, volume.Stats{Read: 40, Packed: 40}, sum(again))
			l.requireWhole(t, again.Archive)
		})
	}
}

// The base may be forgotten while a run is stopped: it is resumed without one.
func TestRun_BaseIsForgottenMeanwhile_ReadsAll(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.write(t, 0, span(0, 20)...)
	first := l.archive(t, l.backup(t), "run-1")
	l.write(t, 0, span(0, 10)...)
	backup := l.backup(t)
	l.stopped(t, 3, l.options(backup, "run-2"))
	_, version, err := l.objects.Get(t.Context(), format.ArchivePrefix+first.Archive)
	require.NoError(t, err)
	_, err = l.objects.Replace(t.Context(), format.ArchivePrefix+first.Archive, []byte(format.Tombstone), version)
	require.NoError(t, err)
	second := l.archive(t, backup, "run-2")
	require.Equal(t, create.WithNothing, second.Volumes[0].Compared)
	l.requireWhole(t, second.Archive)
}

// Who may write and not delete makes archives, and leaves the lease to a prune, which sees that it is over.
func TestRun_MayNotDelete_LeavesItsLease(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.objects.keeps = true
	l.write(t, 0, span(0, 4)...)
	made := l.archive(t, l.backup(t), "run-1")
	require.Len(t, l.leases(t), 1)
	left := l.leases(t)[0]
	decided, err := left.Decided(t.Context(), l.objects)
	require.NoError(t, err)
	require.True(t, decided)
	l.requireWhole(t, made.Archive)
}
