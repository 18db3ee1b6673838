package backup_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// The hold ends with the last CreateSnapshots response, never with the copying.
func TestRun_SealsAndReleasesBeforeTheFirstPoll(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var polls int
	var heldAtPoll []string
	r.ebs.describe = func() {
		if polls++; polls == 1 {
			heldAtPoll = r.held(t.Context())
		}
	}
	o := r.options()
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.True(t, result.Sealed)
	require.Positive(t, polls)
	require.Empty(t, heldAtPoll)
	r.requireSealed(t, o)
	require.NotZero(t, result.Manifest.BackupTS)
	require.Greater(t, result.Manifest.MaxTS, result.Manifest.BackupTS)
	require.Len(t, result.Manifest.Snapshots, 6)
	for _, snap := range result.Manifest.Snapshots {
		require.Regexp(t, `^usw2-az\d$`, result.Manifest.ZoneIDs[snap.Zone], "another account knows the zone by its id")
	}
	require.Positive(t, result.Hold.Length)
	require.LessOrEqual(t, result.Hold.Cut, result.Hold.Length)
	records := r.journal(t, o)
	require.Equal(t, phase.RecordEnd, records[len(records)-1].Type)
	require.Empty(t, records[len(records)-1].Error)

	// The same name again is refused and changes nothing.
	before := len(r.bed.MutatingCalls())
	again := r.options()
	again.Backup = o.Backup
	_, err = r.run(t.Context(), t, again)
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.Len(t, r.bed.MutatingCalls(), before)

	source, err := backup.Plan(t.Context(), r.deps, r.options())
	require.NoError(t, err)
	require.Len(t, source.Topology.Stores, 3)
	require.Len(t, r.bed.MutatingCalls(), before, "a plan changes nothing")
}

func TestRun_CreateSnapshotsRefusedForOneStore_LeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: 3, Code: "UnauthorizedOperation"}) // the first is the probe
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.Empty(t, r.faults.Unreached())
	r.requireUndone(t, o)
}

func TestRun_AnswerOfCreateSnapshotsLost_FindsTheSetAndNeverCutsTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: 3, Position: fault.After})
	o := r.options()
	o.Visibility = 30 * time.Second
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.Empty(t, r.faults.Unreached())
	require.Len(t, r.bed.EC2.Cuts(), 3)
	r.requireSealed(t, o)
}

func TestRun_LeaseLostDuringTheCut_DeletesTheSet(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"noticed by a renewal": 3 * time.Second, "noticed at the end": 25 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.fault(t, fault.Rule{
				Point: "ec2.CreateSnapshots", Nth: 2, Position: fault.Slow, Delay: 1500 * time.Millisecond,
				Do: func() { r.c.Stores()[0].DropLease() },
			})
			o := r.options()
			o.Lease = lease
			_, err := r.run(t.Context(), t, o)
			require.ErrorIs(t, err, hold.ErrBroken)
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.Empty(t, r.faults.Unreached())
			r.requireUndone(t, o)
		})
	}
}

func TestRun_SnapshotFails_DeletesTheSet(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(rules *ebstest.Rules) { rules.SnapshotBase = time.Hour })
	r.events.at("wait", func() {
		if err := r.bed.EC2.FailSnapshot(r.bed.EC2.Snapshots()[3].ID); err != nil {
			t.Error(err)
		}
	})
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.ErrorContains(t, err, "it failed: its state is")
	r.requireUndone(t, o)
}

func TestRun_SnapshotIsDeletedWhileTheBackupWaits_IsNamedAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(rules *ebstest.Rules) { rules.SnapshotBase = 1000 * time.Hour })
	var gone cluster.SnapshotID
	r.events.at("wait", func() {
		gone = r.bed.EC2.Snapshots()[2].ID
		if err := r.deps.EBS.DeleteSnapshot(t.Context(), gone); err != nil {
			t.Error(err)
		}
	})
	o := r.options()
	o.Visibility = 2 * time.Second
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, string(gone))
	require.ErrorContains(t, err, "it was deleted")
	r.requireUndone(t, o)
}

func TestRun_SnapshotsStandStill_GivesUpAfterStuck(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(rules *ebstest.Rules) { rules.SnapshotBase = 1000 * time.Hour })
	o := r.options()
	o.Stuck = time.Second
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Limited, failure.KindOf(err))
	require.ErrorContains(t, err, "no progress for 1s")
	r.requireUndone(t, o)
}

// As long as they progress they are waited for, however long it takes.
func TestRun_SnapshotsProgressSlowly_AreWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(rules *ebstest.Rules) { rules.SnapshotBase = 5 * scale * time.Second })
	o := r.options()
	o.Stuck = 3 * time.Second
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.Greater(t, result.Finished.Sub(result.Started), 5*time.Second)
	r.requireSealed(t, o)
}

func TestRun_SealRefused_SealsNothingAndDeletesTheSet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.store.refuse = manifest.SealFile
	o := r.options()
	result, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Denied, failure.KindOf(err))
	require.False(t, result.Sealed)
	r.requireUndone(t, o)
}

// The seal's PUT is carried out after its client has given up, while the undo is at work.
func TestRun_SealArrivesLate_IsBuriedBeforeTheFirstDeletion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.store.refuse = manifest.SealFile
	deleted := 0
	r.ebs.beforeDelete = func() {
		if deleted++; deleted == 1 {
			r.store.late()
		}
	}
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.Positive(t, deleted)
	_, err = catalog.Catalog{Store: r.store}.Load(t.Context(), o.Backup)
	require.Equal(t, failure.NotFound, failure.KindOf(err), "a backup without snapshots can be restored: %v", err)
	r.requireUndone(t, o)
}

// The seal is written, but its answer is lost and it cannot be read at first: the run fails and must not undo what
// is sealed.
func TestRun_SealedAndThenFailed_KeepsItsSnapshots(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.store.lose, r.store.unread, r.store.lostKind = manifest.SealFile, manifest.SealFile, failure.Denied
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.ErrorContains(t, err, "it was sealed before the run failed, so it is kept")
	require.Len(t, r.bed.EC2.Snapshots(), 6)
	m, err := catalog.Catalog{Store: r.store}.Load(t.Context(), o.Backup)
	require.NoError(t, err)
	require.Len(t, m.Snapshots, 6)
	require.Empty(t, r.held(t.Context()))
}

// Object storage that is away for a moment after the cut ends no backup: its snapshots may be the work of hours.
func TestRun_JournalIsAwayAfterTheCut_IsSealed(t *testing.T) {
	t.Parallel()
	for _, step := range []string{journal.StepRecord, "wait", journal.StepSeal} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			var left atomic.Int64
			r.store.away = func(key string) bool { return strings.HasPrefix(key, manifest.RunsPrefix) && left.Add(-1) >= 0 }
			r.events.at(step, func() { left.Store(3) })
			o := r.options()
			_, err := r.run(t.Context(), t, o)
			require.NoError(t, err)
			require.Negative(t, left.Load(), "it was away")
			r.requireSealed(t, o)
		})
	}
}

// What is repeated stores the manifest that is there already, and not one with another time in it.
func TestRun_RecordIsRepeated_StoresTheSameManifest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var left atomic.Int64
	left.Store(1)
	r.store.away = func(key string) bool { return strings.HasSuffix(key, manifest.BackupMetaFile) && left.Add(-1) >= 0 }
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.Negative(t, left.Load(), "it was away")
	r.requireSealed(t, o)
}

// The live cluster does not wait until what is worth nothing has been deleted.
func TestRun_CutFails_ReleasesBeforeItDeletesTheFirstSnapshot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: 4, Code: "UnauthorizedOperation"})
	deleted, held := 0, []string(nil)
	r.ebs.beforeDelete = func() {
		if deleted++; deleted == 1 {
			held = r.held(t.Context())
		}
	}
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	require.Positive(t, deleted)
	require.Empty(t, held)
	r.requireUndone(t, o)
}

func TestRun_AnswerOfSealLost_IsSealed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.store.lose = manifest.SealFile
	o := r.options()
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.True(t, result.Sealed)
	r.requireSealed(t, o)
}

var errStop = errors.New("stop")

// EC2 carries a request out whose client has gone: what appears later is deleted too.
func TestRun_CancelledDuringTheCut_DeletesWhatAppearsLater(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(rules *ebstest.Rules) {
		rules.Latency = map[string]ebstest.Span{"CreateSnapshots": {Least: 2 * scale * time.Second, Most: 2 * scale * time.Second}}
		rules.Invisible = ebstest.Span{Least: scale * time.Second, Most: scale * time.Second}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r.fault(t, fault.Rule{
		Point: "ec2.CreateSnapshots", Nth: 4, Position: fault.Slow, Delay: 200 * time.Millisecond, Do: func() { cancel(errStop) },
	})
	o := r.options()
	o.Visibility = 5 * time.Second
	_, err := r.run(ctx, t, o)
	require.ErrorIs(t, err, errStop)
	require.Empty(t, r.faults.Unreached())
	require.NotEmpty(t, r.bed.EC2.Cuts(), "EC2 did it")
	r.requireUndone(t, o)
}

// Whenever the run is cancelled, the cluster is released, and what is not sealed leaves no snapshot.
func TestRun_CancelledInEachStep_Releases(t *testing.T) { //nolint:tparallel // one cluster for all steps
	t.Parallel()
	r := newRig(t)
	steps := backup.StepNames()
	seal := slices.Index(steps, "seal")
	require.Positive(t, seal)
	for i, step := range steps {
		t.Run(step, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			r.events.at(step, func() { cancel(errStop) })
			o := r.options()
			if step == journal.StepMarks {
				o.Marks = backup.AutoMarks
			}
			result, err := r.run(ctx, t, o)
			if result.Sealed {
				require.GreaterOrEqual(t, i, seal)
				r.requireSealed(t, o)
				for _, s := range r.bed.EC2.Snapshots() { // for the next step's count
					require.NoError(t, r.ebs.DeleteSnapshot(t.Context(), s.ID))
				}
				return
			}
			require.Error(t, err)
			require.NotEqual(t, failure.Held, failure.KindOf(err))
			r.requireUndone(t, o)
		})
	}
}
