package create_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/tisnap/tisnap/pkg/archive/create"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/prune"
	"github.com/tisnap/tisnap/pkg/archive/repository"
	"github.com/tisnap/tisnap/pkg/archive/units"
	"github.com/tisnap/tisnap/pkg/archive/volume"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebsdirect"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// segmentGiB is a unit.
const segmentGiB = format.SegmentBlocks * volume.BlockSize >> 30

// newSharedLab is a lab with two volumes of four units each, with blocks in all of them, and a backup.
func newSharedLab(t *testing.T) (*lab, cluster.BackupID) {
	t.Helper()
	l := newLabOf(t, 3*segmentGiB+1)
	for store := range 2 {
		for k := range int64(4) {
			first := k * format.SegmentBlocks
			l.write(t, store, first, first+1, first+2, first+40, first+41, first+400)
		}
	}
	return l, l.backup(t)
}

// shared are the options of a run that others join.
func (l *lab) shared(backup cluster.BackupID, lead bool) create.Options {
	o := l.options(backup, "share")
	o.Shared, o.Lead = true, lead
	return create.WithLooks(o, time.Millisecond)
}

// join joins the archive of the run as soon as there is one.
func (l *lab) join(ctx context.Context, t *testing.T, b create.Blocks, o create.JoinOptions) (*create.Joined, error) {
	t.Helper()
	for {
		leases := l.leases(t)
		if len(leases) == 0 {
			continue
		}
		o.Archive = leases[0].Archive
		done, err := create.Join(ctx, create.JoinDeps{Repository: l.repo, Blocks: b, Region: region}, o)
		if !failure.Is(err, failure.NotFound) {
			return done, err
		}
	}
}

// units is how many objects the processes share.
func (l *lab) units(t *testing.T) int {
	t.Helper()
	objects, err := l.objects.List(t.Context(), format.UnitPrefix)
	require.NoError(t, err)
	return len(objects)
}

func TestShared_ThreeJoin_EachUnitIsDoneOnce(t *testing.T) {
	t.Parallel()
	for _, lead := range []bool{true, false} {
		t.Run(fmt.Sprint(lead), func(t *testing.T) {
			t.Parallel()
			l, backup := newSharedLab(t)
			var group errgroup.Group
			joined := make([]*create.Joined, 3)
			for i := range joined {
				b := l.open(t)
				group.Go(func() (err error) {
					joined[i], err = l.join(t.Context(), t, b, create.QuickJoin(fmt.Sprint(i), i, 3, time.Hour))
					return err
				})
			}
			result, err := create.Run(t.Context(), l.deps(l.open(t)), l.shared(backup, lead))
			require.NoError(t, err)
			require.NoError(t, group.Wait())
			require.True(t, result.Committed)
			l.requireWhole(t, result.Archive)
			units := 0
			for _, j := range joined {
				units += j.Units
			}
			if lead {
				require.Equal(t, 8, units)
			}
			require.Equal(t, int64(2*4*6), sum(result).Read)
			require.Equal(t, int64(2*4*6), result.Spent.Reads, "no block is read twice")
			require.Zero(t, l.units(t))
			require.Empty(t, l.leases(t))
		})
	}
}

func TestShared_SecondBackup_ReadsOnlyWhatChanged(t *testing.T) {
	t.Parallel()
	l, backup := newSharedLab(t)
	l.archive(t, backup, "first")
	l.write(t, 0, 3, format.SegmentBlocks)
	result, err := create.Run(t.Context(), l.deps(l.open(t)), l.shared(l.backup(t), false))
	require.NoError(t, err)
	require.Equal(t, int64(2), sum(result).Read)
	require.Equal(t, create.WithSnapshot, result.Volumes[0].Compared)
	l.requireWhole(t, result.Archive)
}

func TestShared_ProcessDies_ItsUnitIsDoneAgain(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]create.JoinOptions{
		"at once by the next of its name":  create.QuickJoin("dead", 0, 2, time.Hour),
		"after a while by another process": create.QuickJoin("other", 1, 2, 50*time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, backup := newSharedLab(t)
			var group errgroup.Group
			group.Go(func() error {
				ctx, kill := context.WithCancel(t.Context())
				defer kill()
				_, err := l.join(ctx, t, stopAfter(l.open(t), 8, kill), create.QuickJoin("dead", 0, 2, time.Hour))
				if err == nil {
					return failure.New(failure.Unknown, "join", "", "it was not killed")
				}
				done, err := l.join(t.Context(), t, l.open(t), next)
				if err == nil && done.Units < 7 {
					return failure.New(failure.Unknown, "join", "", "%d units were done", done.Units)
				}
				return err
			})
			result, err := create.Run(t.Context(), l.deps(l.open(t)), l.shared(backup, true))
			require.NoError(t, err)
			require.NoError(t, group.Wait())
			l.requireWhole(t, result.Archive)
		})
	}
}

// TestShared_PlanIsGone_AllEnd: a prune broke the lease of a run whose process was suspended.
func TestShared_PlanIsGone_AllEnd(t *testing.T) {
	t.Parallel()
	l, backup := newSharedLab(t)
	var group errgroup.Group
	blocked, resume := make(chan struct{}), make(chan struct{})
	group.Go(func() error {
		_, err := l.join(t.Context(), t, &blocking{l.open(t), blocked, resume}, create.QuickJoin("a", 0, 1, time.Hour))
		if !failure.Is(err, failure.Conflict) {
			return failure.New(failure.Unknown, "join", "", "it ended with: %w", err)
		}
		return nil
	})
	led := make(chan error, 1)
	go func() {
		_, err := create.Run(t.Context(), l.deps(l.open(t)), l.shared(backup, true))
		led <- err
	}()
	<-blocked
	all, err := l.objects.List(t.Context(), format.UnitPrefix)
	require.NoError(t, err)
	for _, o := range all {
		require.NoError(t, l.objects.Delete(t.Context(), o.Key))
	}
	require.True(t, failure.Is(<-led, failure.Conflict))
	close(resume)
	require.NoError(t, group.Wait())
}

// blocking stops at its first read until it may continue.
type blocking struct {
	*ebsdirect.Client
	blocked, resume chan struct{}
}

func (b *blocking) Read(ctx context.Context, at ebsdirect.Block, into []byte) (ebsdirect.Sum, error) {
	select {
	case <-b.resume:
	case b.blocked <- struct{}{}:
		<-b.resume
	}
	return b.Client.Read(ctx, at, into)
}

func TestShared_LeaderDies_TheSameCommandCommitsWhatOthersDid(t *testing.T) {
	t.Parallel()
	l, backup := newSharedLab(t)
	result := l.stopped(t, 8, l.shared(backup, false))
	done, err := l.join(t.Context(), t, l.open(t), create.QuickJoin("a", 0, 1, time.Millisecond))
	require.NoError(t, err)
	require.Positive(t, done.Units)
	blind := stopAfter(l.open(t), 0, func() {}) // cannot read a block
	again, err := create.Run(t.Context(), l.deps(blind), l.shared(backup, false))
	require.NoError(t, err)
	require.Equal(t, result.Archive, again.Archive)
	l.requireWhole(t, again.Archive)
}

func TestShared_LeaseIsBroken_JoinedEndsAndNothingIsCommitted(t *testing.T) {
	t.Parallel()
	l, backup := newSharedLab(t)
	first := l.stopped(t, 8, l.shared(backup, false))
	require.NotZero(t, l.units(t))
	_, err := prune.Run(t.Context(), l.repo, prune.Options{BreakAfter: -1, MaxUnused: 1})
	require.NoError(t, err)
	require.NotZero(t, l.units(t), "its lease is held")
	_, err = prune.Run(t.Context(), l.repo, prune.Options{MaxUnused: 1})
	require.NoError(t, err)
	require.Zero(t, l.units(t))
	_, err = create.Join(t.Context(), create.JoinDeps{Repository: l.repo, Blocks: l.open(t), Region: region},
		create.JoinOptions{Archive: first.Archive, Name: "a"})
	require.True(t, failure.Is(err, failure.NotFound), "%v", err)
	again, err := create.Run(t.Context(), l.deps(l.open(t)), l.shared(backup, false))
	require.NoError(t, err)
	require.NotEqual(t, first.Archive, again.Archive)
	l.requireWhole(t, again.Archive)
}

func TestShared_StorageIgnoresConditions_Refused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	backup := l.backup(t)
	owner, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	slot, err := l.repo.Keys().AgeSlot("owner", owner.Recipient().String(), owner.Recipient())
	require.NoError(t, err)
	l.repo, err = repository.Init(t.Context(), objstoretest.NewMemory(nil), l.repo.Keys(), []format.Slot{slot},
		format.Settings{PackSize: perPack * volume.BlockSize})
	require.NoError(t, err)
	_, err = create.Run(t.Context(), l.deps(l.open(t)), l.shared(backup, false))
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
}

func TestJoin_OtherRegion_Refused(t *testing.T) {
	t.Parallel()
	l, backup := newSharedLab(t)
	first := l.stopped(t, 8, l.shared(backup, false))
	_, err := create.Join(t.Context(), create.JoinDeps{Repository: l.repo, Blocks: l.open(t), Region: "eu-west-1"},
		create.JoinOptions{Archive: first.Archive, Name: "a"})
	require.True(t, failure.Is(err, failure.Usage), "%v", err)
	require.Equal(t, "pass --region "+region, failure.HintOf(err))
}

// What others claim after a process has looked costs it one refused claim, however much that is, and no reads.
func TestJoin_OthersClaimMeanwhile_AsksForNoneOfTheirs(t *testing.T) {
	t.Parallel()
	l, backup := newSharedLab(t)
	first := l.stopped(t, 8, l.shared(backup, false))
	shared := units.Of(l.repo, first.Archive)
	early, _, err := shared.List(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, early)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var once sync.Once
	var claims, reads atomic.Int64
	l.objects.read = func(key string) {
		if strings.Contains(key, "/claims/") {
			reads.Add(1)
		}
	}
	others := false
	l.objects.before = func(key string) {
		switch {
		case others:
		case strings.Contains(key, "/results/"):
			stop() // all that it could claim is stored
		case strings.Contains(key, "/claims/"):
			claims.Add(1)
			once.Do(func() {
				others = true
				for id := range 8 {
					if unit := (units.ID{Volume: id / 4, Segment: id % 4}); !strings.HasSuffix(key, "/"+unit.String()) {
						_, err := shared.Claim(t.Context(), unit, "other")
						assert.NoError(t, err)
					}
				}
				others = false
			})
		}
	}
	o := create.QuickJoin("late", 0, 1, time.Hour)
	o.Archive = first.Archive
	_, err = create.Join(ctx, create.JoinDeps{Repository: l.repo, Blocks: l.open(t), Region: region}, create.LookingEach(o, time.Hour))
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, int64(2), claims.Load())
	require.LessOrEqual(t, int(reads.Load()), len(early))
}

// helpers join as pods would, or cannot work.
type helpers struct {
	join func(ctx context.Context, archive string) error
	err  error
}

func (h *helpers) Work(ctx context.Context, archive string, note func(string, ...any)) error {
	note("helpers of %s", archive)
	if h.join != nil {
		if err := h.join(ctx, archive); err != nil {
			return err
		}
	}
	if h.err != nil {
		return h.err
	}
	<-ctx.Done() // as one that watches processes which end later
	return ctx.Err()
}

// helper joins until all units are done.
func (l *lab) helper(b create.Blocks) func(ctx context.Context, archive string) error {
	return func(ctx context.Context, archive string) error {
		o := create.QuickJoin("0", 0, 1, time.Hour)
		o.Archive = archive
		_, err := create.Join(ctx, create.JoinDeps{Repository: l.repo, Blocks: b, Region: region}, o)
		return err
	}
}

func TestShared_Helpers_EndWithTheUnits(t *testing.T) {
	t.Parallel()
	l, backup := newSharedLab(t)
	deps := l.deps(l.open(t))
	deps.Helpers = &helpers{join: l.helper(l.open(t))}
	result, err := create.Run(t.Context(), deps, l.shared(backup, true))
	require.NoError(t, err)
	require.True(t, result.Committed)
	l.requireWhole(t, result.Archive)
}

func TestShared_HelpersCannotWork_Fails(t *testing.T) {
	t.Parallel()
	l, backup := newSharedLab(t)
	deps := l.deps(l.open(t))
	deps.Helpers = &helpers{err: failure.New(failure.Unready, "wait for job", "tidb/x", "no such image")}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := create.Run(ctx, deps, l.shared(backup, true))
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "no such image")
}

// TestShared_OneHelperFailed_UnitsAreDone_Commits: the pods of one index used up its retries, and others did its units,
// between two looks of the run.
func TestShared_OneHelperFailed_UnitsAreDone_Commits(t *testing.T) {
	t.Parallel()
	l, backup := newSharedLab(t)
	deps := l.deps(l.open(t))
	deps.Helpers = &helpers{join: l.helper(l.open(t)), err: failure.New(failure.Unready, "wait for job", "tidb/x", "it failed")}
	result, err := create.Run(t.Context(), deps, create.WithLooks(l.shared(backup, true), 2*time.Second))
	require.NoError(t, err)
	require.True(t, result.Committed)
	l.requireWhole(t, result.Archive)
}
