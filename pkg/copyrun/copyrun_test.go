package copyrun_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/copyplan"
	"github.com/tisnap/tisnap/pkg/copyrun"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/wait"
)

func (l *lab) run(t *testing.T, backup cluster.BackupID, run cluster.RunID) *copyrun.Result {
	t.Helper()
	deps := l.deps()
	deps.Sink = printing{t}
	result, err := copyrun.Run(t.Context(), deps, l.options(backup, run))
	require.NoError(t, err)
	require.True(t, result.Sealed)
	require.Empty(t, result.Shared)
	return result
}

// The first copy moves all, the second what has changed; both outlive the source.
func TestRun_OtherAccountAndRegion_SealsCopiesThatOutliveTheSource(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3)
	first := l.backup(t)
	result := l.run(t, first, "run-1")
	require.Len(t, result.Copies, 3)
	require.Equal(t, copyplan.First, result.Copies[0].Full)
	m := l.requireWhole(t, first)
	require.EqualValues(t, "run-1", m.Run)
	require.EqualValues(t, "made", m.CopyOf.Run)
	l.requireUnshared(t)

	second := l.backup(t)
	result = l.run(t, second, "run-2")
	require.Equal(t, copyplan.Incremental, result.Copies[0].Full)
	l.requireWhole(t, second)
	require.Equal(t, 6, l.copies())
	for _, c := range l.to.server.Copies()[3:] {
		require.Empty(t, c.Full, "as it was announced")
	}
	_, err := gc.Delete(t.Context(), gc.Deps{EBS: l.from.client, Store: l.from.at()},
		gc.DeleteOptions{Backup: first, Rate: 1000})
	require.NoError(t, err, "no lease is left")
	_, err = gc.Delete(t.Context(), gc.Deps{EBS: l.to.client, Store: l.to.at()}, gc.DeleteOptions{Backup: second, Rate: 1000})
	require.NoError(t, err, "a copy is deleted as any backup is")
	require.Equal(t, 3, l.copies())
}

// More copies than EC2 makes at a time.
func TestRun_MoreThanSlots_NeverRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, copyplan.Slots+5)
	backup := l.backup(t)
	l.run(t, backup, "run-1")
	l.requireWhole(t, backup)
	require.Empty(t, l.to.server.Refusals())
}

func TestRun_CopyIsThere_Refused(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	backup := l.backup(t)
	l.run(t, backup, "run-1")
	_, err := copyrun.Run(t.Context(), l.deps(), l.options(backup, "run-2"))
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	deps := l.deps()
	deps.To = deps.From
	_, err = copyrun.Run(t.Context(), deps, l.options(backup, "run-2"))
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	require.Equal(t, 1, l.copies())
}

// A time in which EC2 cannot do it is refused before the first change.
func TestRun_WithinIsTooShort_RefusedBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1, func(c *ebstest.Config) { c.Rules.ByteScale, c.Rules.Copies.PairRate = 1, 1<<20 })
	l.empty = true
	backup := l.backup(t)
	written := len(l.to.store.MutatingCalls())
	options := l.options(backup, "run-1")
	options.Within = 2*time.Hour + 45*time.Minute // at 1 MiB/s it is 10,240 s
	_, err := copyrun.Run(t.Context(), l.deps(), options)
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "3h0m0s at the shortest")
	require.Len(t, l.to.store.MutatingCalls(), written)
	require.Empty(t, l.to.server.MutatingCalls())
	options.Within = 3 * time.Hour
	plan, err := copyrun.Estimate(t.Context(), l.deps(), options)
	require.NoError(t, err)
	require.Equal(t, 3*time.Hour, plan.Each)
}

// A copy that turns to error is deleted and made again, three times at most; its message is named.
func TestRun_CopyFailsLate_MadeAgainThreeTimes(t *testing.T) {
	t.Parallel()
	for _, failures := range []int{2, 3} {
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 1)
			backup := l.backup(t)
			require.NoError(t, l.to.faults.Add(fault.Rule{
				Point: "ec2.CopySnapshot.late", Position: fault.Before, Code: "Given key ID is not accessible", Times: failures,
			}))
			result, err := copyrun.Run(t.Context(), l.deps(), l.options(backup, "run-1"))
			if failures < 3 {
				require.NoError(t, err)
				l.requireWhole(t, backup)
				require.Equal(t, 1, l.copies())
				return
			}
			require.ErrorContains(t, err, "Given key ID is not accessible")
			require.Equal(t, failure.Unready, failure.KindOf(err))
			require.False(t, result.Sealed)
			require.Zero(t, l.copies())
			require.Len(t, result.Shared, 1, "until the run is resumed")
			l.run(t, backup, "run-1")
			l.requireWhole(t, backup)
			l.requireUnshared(t)
		})
	}
}

// CopySnapshot has no token: after a lost answer the copy is found by its tags, and is made once.
func TestRun_AnswerIsLost_NoCopyIsMadeTwice(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3, hiding)
	backup := l.backup(t)
	lost := l.loseAnswers(2)
	l.run(t, backup, "run-1")
	require.EqualValues(t, 3, lost.Load(), "each is asked for once")
	l.requireWhole(t, backup)
	require.Equal(t, 3, l.copies())
	require.Len(t, l.to.server.Copies(), 3)
	require.Empty(t, l.to.server.Refusals(), "none is asked for while it may be there")
}

// oldAnswer is EC2 whose first list of copies reaches the process only once EC2 could not hide one any more: it was
// suspended meanwhile, or deleted a copy that had failed.
type oldAnswer struct {
	copyrun.TargetEC2
	asked, late atomic.Bool
}

func (o *oldAnswer) CopySnapshot(ctx context.Context, req ebs.CopyRequest) (cluster.SnapshotID, error) {
	id, err := o.TargetEC2.CopySnapshot(ctx, req)
	o.asked.Store(err == nil)
	return id, err
}

func (o *oldAnswer) FindSnapshots(ctx context.Context, tags ebs.Tags) ([]ebs.Snapshot, error) {
	found, err := o.TargetEC2.FindSnapshots(ctx, tags)
	if o.asked.Load() && !o.late.Swap(true) {
		err = errors.Join(err, wait.For(ctx, 2*hidden))
	}
	return found, err
}

// What an answer does not show is only gone if it was asked for late enough, whenever it arrives.
func TestRun_AnswerIsOld_NoCopyIsMadeTwice(t *testing.T) {
	t.Parallel()
	l := newLab(t, 3, hiding)
	backup := l.backup(t)
	deps, target := l.deps(), &oldAnswer{TargetEC2: l.to.client}
	deps.Target = target
	_, err := copyrun.Run(t.Context(), deps, l.options(backup, "run-1"))
	require.NoError(t, err)
	require.True(t, target.late.Load())
	require.Len(t, l.to.server.Copies(), 3)
	l.requireWhole(t, backup)
}

// dying is EC2 for a process that dies before it gets the answer to a request for a copy.
type dying struct {
	copyrun.TargetEC2
	die func()
}

func (d *dying) CopySnapshot(ctx context.Context, req ebs.CopyRequest) (cluster.SnapshotID, error) {
	_, err := d.TargetEC2.CopySnapshot(ctx, req)
	d.die()
	return "", errors.Join(err, ctx.Err())
}

// late is EC2 that does not show a copy to the first who asks.
type late struct {
	copyrun.TargetEC2
	asked atomic.Bool
}

func (o *late) FindSnapshots(ctx context.Context, tags ebs.Tags) ([]ebs.Snapshot, error) {
	if !o.asked.Swap(true) {
		return nil, nil
	}
	return o.TargetEC2.FindSnapshots(ctx, tags)
}

// What a process that died has asked for may be made, although EC2 does not show it to the next one.
func TestRun_DiedBeforeTheAnswer_NoCopyIsMadeTwice(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	backup := l.backup(t)
	ctx, die := context.WithCancel(t.Context())
	deps, target := l.deps(), &late{TargetEC2: l.to.client}
	deps.Target = &dying{l.to.client, die}
	_, err := copyrun.Run(ctx, deps, l.options(backup, "run-1"))
	require.ErrorIs(t, err, context.Canceled)
	require.Len(t, l.to.server.Copies(), 1)
	deps.Target = target
	opts := l.options(backup, "run-1")
	opts.Visibility = time.Minute // of which nothing has to pass
	_, err = copyrun.Run(t.Context(), deps, opts)
	require.NoError(t, err)
	require.True(t, target.asked.Load())
	require.Len(t, l.to.server.Copies(), 1)
	l.requireWhole(t, backup)
}

// loseAnswers loses the answers to the next requests for copies, and counts these.
func (l *lab) loseAnswers(n int64) *atomic.Int64 {
	var shared atomic.Bool // and so the dry run of CopySnapshot is over
	var lost atomic.Int64
	l.from.faults.Watch(func(point string) *fault.Rule {
		if point == "ec2.ModifySnapshotAttribute" {
			shared.Store(true)
		}
		return nil
	})
	l.to.faults.Watch(func(point string) *fault.Rule {
		if point == "ec2.CopySnapshot" && shared.Load() && lost.Add(1) <= n {
			return &fault.Rule{Position: fault.After}
		}
		return nil
	})
	return &lost
}

// hiding has EC2 not show a copy for most of the time that it may.
func hiding(c *ebstest.Config) {
	if c.Region == awayAt {
		c.Rules.Invisible = ebstest.Span{Least: 20 * time.Second, Most: 20 * time.Second}
	}
}

// Until it is copied the source stays, whoever wants to delete it.
func TestRun_SourceIsDeletedMeanwhile_Refused(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	backup := l.backup(t)
	var once sync.Once
	var refused error
	l.to.faults.Watch(func(point string) *fault.Rule {
		if point == "ec2.CopySnapshot.late" {
			once.Do(func() {
				_, refused = gc.Delete(t.Context(), gc.Deps{EBS: l.from.client, Store: l.from.at()},
					gc.DeleteOptions{Backup: backup, Last: true, Rate: 1000})
			})
		}
		return nil
	})
	defer l.to.faults.Watch(nil)
	l.run(t, backup, "run-1")
	require.Equal(t, failure.Conflict, failure.KindOf(refused), "%v", refused)
	require.ErrorContains(t, refused, "run run-1 (copy")
	l.requireWhole(t, backup)
}

// The default key for EBS cannot be shared: that is reported before anything is copied, and nothing stays shared.
func TestRun_DefaultKeyOfAnotherAccount_Refused(t *testing.T) {
	t.Parallel()
	l := newLab(t, 2)
	backup := l.backup(t)
	require.NoError(t, l.from.faults.Add(fault.Rule{
		Point: "ec2.ModifySnapshotAttribute", Position: fault.Before, Code: "OperationNotPermitted", Times: 1,
	}))
	_, err := copyrun.Run(t.Context(), l.deps(), l.options(backup, "run-1"))
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "default key")
	l.requireUnshared(t)
	require.Zero(t, l.copies())
}

// Wherever a run is stopped, gc removes what it made, or the same command finishes it.
func TestRun_StoppedAnywhere_ResumedOrCollected(t *testing.T) {
	t.Parallel()
	for calls := range 24 {
		t.Run(fmt.Sprint(calls), func(t *testing.T) {
			t.Parallel()
			l := newLab(t, 3, hiding)
			backup := l.backup(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var asked atomic.Int64
			l.to.faults.Watch(func(string) *fault.Rule {
				if asked.Add(1) == int64(calls) {
					stop()
				}
				return nil
			})
			_, err := copyrun.Run(ctx, l.deps(), l.options(backup, "run-1"))
			l.to.faults.Watch(nil)
			if calls%2 == 0 {
				l.resumeOrSealed(t, backup, err)
				require.Len(t, l.to.server.Copies(), 3, "none is made twice")
				return
			}
			if err == nil {
				return
			}
			if _, err := catalogOf(l.to).Load(t.Context(), backup); err != nil {
				require.Eventually(t, func() bool { // EC2 may hide a copy at first
					_, err := gc.Collect(t.Context(), gc.Deps{EBS: l.to.client, Store: l.to.at()}, gc.Options{Rate: 1000})
					require.NoError(t, err)
					return l.copies() == 0
				}, 20*time.Second, hidden)
			}
			l.resumeOrSealed(t, backup, failure.New(failure.Unknown, "", "", "collected"))
		})
	}
}

func (l *lab) resumeOrSealed(t *testing.T, backup cluster.BackupID, err error) {
	t.Helper()
	if err != nil {
		l.run(t, backup, "run-1")
	}
	l.requireWhole(t, backup)
	require.Equal(t, 3, l.copies())
	l.requireUnshared(t)
}

// notes keeps what a run reports.
type notes struct {
	mu   sync.Mutex
	text string
}

func (n *notes) Emit(e phase.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text += e.Message + "\n"
}

// What a run takes and costs is reported before it changes anything.
func TestRun_Cost_ReportedBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	l := newLab(t, 1)
	backup := l.backup(t)
	reported := &notes{}
	deps := l.deps()
	deps.Sink = reported
	deps.Cost = func(p *copyrun.Plan) string {
		require.Len(t, p.Copies, 1)
		require.Empty(t, l.to.server.MutatingCalls())
		return "in an hour, for a dollar"
	}
	_, err := copyrun.Run(t.Context(), deps, l.options(backup, "run-1"))
	require.NoError(t, err)
	require.Contains(t, reported.text, string(copyplan.First)+"); in an hour, for a dollar\n")
}
