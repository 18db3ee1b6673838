package backup_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// dropLeaseAt makes a store forget its lease when EC2 is asked for the nth set, the probe not counted.
func (r *rig) dropLeaseAt(t *testing.T, nth int) {
	t.Helper()
	r.fault(t, fault.Rule{
		Point: "ec2.CreateSnapshots", Nth: nth + 1, Position: fault.Slow, Delay: 10 * time.Millisecond,
		Do: func() { r.c.Stores()[1].DropLease() },
	})
}

func TestRun_HoldBreaks_IsHeldAgainAndTheFirstSetIsThrownAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.dropLeaseAt(t, 2)
	o := r.options()
	o.HoldAttempts = 3
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.Empty(t, r.faults.Unreached())
	r.requireSealed(t, o)
	require.Equal(t, 2, result.Attempts)
	require.Len(t, result.FailedAttempts, 1)
	first := result.FailedAttempts[0]
	require.Contains(t, first.Error, r.c.Stores()[1].Addr(), "it names the store")
	require.Regexp(t, `the hold broke at \d\d:\d\d:\d\d\.\d{3}Z, .* after the first pause`, first.Error, "and when")
	require.GreaterOrEqual(t, len(r.bed.EC2.Cuts()), 2*3-1)
	kept := map[cluster.SnapshotID]bool{}
	for _, s := range r.bed.EC2.Snapshots() {
		kept[s.ID] = true
	}
	for _, id := range result.Manifest.SnapshotIDs() {
		require.True(t, kept[id], "%s is not of the last attempt", id)
	}
	require.True(t, result.Manifest.CutStartedAt.After(first.At))
	var again bool
	for _, p := range result.Timings {
		again = again || p.Phase == "hold again" && p.Outcome == phase.Done && p.Seconds >= 1
	}
	require.True(t, again, "it waits until EC2 takes the next snapshot of a volume")
	require.Len(t, result.Hold.Stores, 3)
	parts := map[string]int{}
	for _, store := range result.Hold.Stores {
		for _, p := range store.Parts {
			parts[p.Name]++
			require.Positive(t, p.Seconds, p.Name)
		}
	}
	require.Positive(t, parts["wait apply"], "of the stores that lead a region")
	delete(parts, "wait apply")
	require.Equal(t, map[string]int{"connect": 3, "suspend imports": 3, "pause admin commands": 3, "cut": 3, "release": 3}, parts)
}

// EC2 shows the set of the first attempt late, when the second attempt looks for its own after a lost answer: it
// was cut before the second hold began.
func TestRun_ASetOfAnotherAttempt_IsNeverTakenForThisOnes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var mu sync.Mutex
	var store string
	var lost error
	hidden := true
	r.ebs.hide = func(s ebs.Snapshot) bool {
		mu.Lock()
		defer mu.Unlock()
		return hidden && s.Tags[ebs.TagStore] == store
	}
	r.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: 2, Position: fault.After}) // the first is the probe
	r.ebs.cut = func(req ebs.CutRequest, call func() ([]ebs.Snapshot, error)) (made []ebs.Snapshot, err error) {
		mu.Lock()
		defer mu.Unlock()
		if store == "" {
			store = req.Tags[ebs.TagStore]
			if made, lost = call(); lost == nil {
				t.Error("the answer was not lost")
			}
			r.c.Stores()[0].DropLease() // the first hold breaks after the set was made
			return made, lost
		}
		if store == req.Tags[ebs.TagStore] {
			hidden = false
			return nil, lost // EC2 never got the second request
		}
		return call()
	}
	o := r.options()
	o.HoldAttempts, o.Lease, o.Visibility = 2, 3*time.Second, 2*time.Second
	result, err := r.run(t.Context(), t, o)
	require.Error(t, err, "its own second set was never made")
	require.Equal(t, 2, result.Attempts)
	require.False(t, result.Sealed)
	r.requireUndone(t, o)
}

func TestRun_HoldBreaksEachTime_FailsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{
		Point: "ec2.CreateSnapshots", Nth: 2, Times: -1, Position: fault.Slow, Delay: time.Millisecond,
		Do: func() { r.c.Stores()[0].DropLease() },
	})
	o := r.options()
	o.HoldAttempts, o.Steady = 2, 800*time.Millisecond
	result, err := r.run(t.Context(), t, o)
	require.ErrorIs(t, err, hold.ErrBroken)
	require.ErrorContains(t, err, "attempt 2 of 2")
	require.Len(t, result.FailedAttempts, 2)
	r.requireUndone(t, o)
}

// What is released at the second try is not reported as held (exit 9).
func TestRun_ReleaseFailsAtFirst_IsTriedUntilItIsReleased(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{Point: "pd.DropTTLConfig", Code: "503", Times: 3})
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err, "the set was proven, so it is kept")
	require.Empty(t, r.faults.Unreached())
	r.requireSealed(t, o)

	r = newRig(t)
	r.fault(t, fault.Rule{Point: "pd.DropTTLConfig", Code: "503", Times: 3})
	r.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: 2, Code: "UnauthorizedOperation"})
	o = r.options()
	_, err = r.run(t.Context(), t, o)
	require.Equal(t, failure.Denied, failure.KindOf(err), "%v", err)
	r.requireUndone(t, o)
}

// The cut is proven, and then PD cannot be released for longer than a lease: the set is good, the cluster's state is not.
func TestRun_PDCannotResumeAfterTheProof_TheSetIsSealed(t *testing.T) {
	t.Parallel()
	for name, heals := range map[string]bool{"for good": false, "until the end of the run": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.fault(t, fault.Rule{Point: "pd.DropTTLConfig", Code: "503", Times: -1})
			if heals {
				r.events.at(journal.StepReleaseAgain, r.faults.Clear)
			}
			o := r.options()
			o.Lease = 3 * time.Second
			result, err := r.run(t.Context(), t, o)
			require.Equal(t, heals, err == nil, "%v", err)
			require.Equal(t, !heals, failure.Is(err, failure.Held), "%v", err)
			require.True(t, result.Sealed)
			require.Len(t, r.bed.EC2.Snapshots(), 6)
			_, err = catalog.Catalog{Store: r.store}.Load(t.Context(), o.Backup)
			require.NoError(t, err)
			r.requireUnlocked(t)
			left, planErr := backup.PlanRelease(t.Context(), r.store, r.deps.PD, backup.ReleaseOptions{Cluster: prod})
			require.NoError(t, planErr)
			require.Equal(t, !heals, len(left.Dead) == 1, "what a release finds of it: %v", left.Dead)
		})
	}
}

// The cut is proven, PD cannot be released, and the run fails before its backup is sealed: the cluster is released all the
// same before a snapshot is deleted, or the run reports that it is held.
func TestRun_PDCannotResumeAndTheRunFails_ReleasesOrReportsTheHold(t *testing.T) {
	t.Parallel()
	for name, heals := range map[string]bool{"for good": false, "until the undo": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.fault(t, fault.Rule{Point: "pd.DropTTLConfig", Code: "503", Times: -1})
			r.store.refuse = manifest.SealFile
			if heals {
				r.events.at("seal", r.faults.Clear)
			}
			o := r.options()
			o.Lease = 3 * time.Second
			result, err := r.run(t.Context(), t, o)
			require.Error(t, err)
			require.False(t, result.Sealed)
			require.Equal(t, !heals, failure.Is(err, failure.Held), "%v", err)
			require.Empty(t, r.bed.EC2.Snapshots())
			r.requireUnlocked(t)
			left, planErr := backup.PlanRelease(t.Context(), r.store, r.deps.PD, backup.ReleaseOptions{Cluster: prod})
			require.NoError(t, planErr)
			require.Equal(t, !heals, len(left.Dead) == 1, "what a release finds of it: %v", left.Dead)
		})
	}
}

// A store that never comes back holds nothing once its lease has run out.
func TestRun_StoreLostForGood_EndsWhenItsLeaseHasRunOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{
		Point: "ec2.CreateSnapshots", Nth: 2, Position: fault.Slow, Delay: time.Second,
		Do: func() { r.c.Stores()[2].Kill() },
	})
	o := r.options()
	o.Lease = 3 * time.Second
	_, err := r.run(t.Context(), t, o)
	require.ErrorIs(t, err, hold.ErrBroken)
	require.NotEqual(t, failure.Held, failure.KindOf(err), "%v", err)
	require.Empty(t, r.bed.EC2.Snapshots())
	r.requireUnlocked(t)
}

func TestRun_BudgetUsedUp_IsNotTriedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Nth: 3, Position: fault.Stall})
	o := r.options()
	o.HoldAttempts, o.MaxHold, o.Lease = 3, 4*time.Second, 3*time.Second
	result, err := r.run(t.Context(), t, o)
	require.ErrorIs(t, err, hold.ErrBudget)
	require.Equal(t, 1, result.Attempts)
	r.requireUndone(t, o)
}

func TestRun_StoresNeverSteady_FailsAndNamesOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{
		Point: "ec2.CreateSnapshots", Nth: 2, Position: fault.Slow, Delay: 10 * time.Millisecond,
		Do: func() { r.c.Stores()[1].DropLease() },
	})
	r.fault(t, fault.Rule{Point: "pd.Stores", Nth: 3, Times: -1, Code: "503"}) // after preflight's
	o := r.options()
	o.HoldAttempts, o.SteadyTimeout = 3, 2*time.Second
	_, err := r.run(t.Context(), t, o)
	require.ErrorIs(t, err, hold.ErrBroken, "the reason for the wait")
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "unstable topology")
	require.Contains(t, failure.HintOf(err), "--steady-timeout")
	r.requireUndone(t, o)
}

// A store that goes away right after the cluster was found steady is waited for, as one that is away before.
func TestRun_StoreIsAwayWhenImportsAreChecked_IsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{
		Point: "ec2.CreateSnapshots", Nth: 2, Position: fault.Slow, Delay: 10 * time.Millisecond,
		Do: func() { r.c.Stores()[1].DropLease() },
	})
	r.fault(t, fault.Rule{Point: "tikv.2.GetMode", Nth: 2, Times: 2, Code: "Unavailable"}) // the first is preflight's
	o := r.options()
	o.HoldAttempts = 3
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.Equal(t, 2, result.Attempts)
	require.Empty(t, r.faults.Unreached())
}

func TestRun_AStepPanics_IsReleased(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ebs.attachments = func() { panic("nil map") }
	o := r.options()
	o.HoldAttempts = 3
	result, err := r.run(t.Context(), t, o)
	require.ErrorContains(t, err, "panic: nil map")
	require.Equal(t, 1, result.Attempts)
	r.requireUndone(t, o)
}

// PD forgets its pauses when it restarts, and lists no scheduler for a while: the next attempt waits for them.
func TestRun_PDRestartsDuringTheCut_IsHeldAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{
		Point: "ec2.CreateSnapshots", Nth: 3, Position: fault.Slow, Delay: 10 * time.Millisecond,
		Do: func() {
			if err := r.c.PD.Restart(); err != nil {
				t.Error(err)
			}
		},
	})
	o := r.options()
	o.HoldAttempts = 3
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.GreaterOrEqual(t, result.Attempts, 2)
	r.requireSealed(t, o)
}

// A rolling restart: each store in turn, while the backup tries (tidb-operator#5436).
func TestRun_RollingRestart_IsHeldAgainAfterTheLast(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rolling := make(chan error, 1)
	r.fault(t, fault.Rule{
		Point: "ec2.CreateSnapshots", Nth: 3, Position: fault.Slow, Delay: 2 * time.Second,
		Do: func() {
			go func() {
				var err error
				for _, pod := range r.c.Pods() {
					err = errors.Join(err, r.bed.RestartStore(t.Context(), prod, pod))
				}
				rolling <- err
			}()
		},
	})
	o := r.options()
	o.HoldAttempts, o.Lease = 3, 3*time.Second
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, <-rolling)
	require.NoError(t, err)
	require.GreaterOrEqual(t, result.Attempts, 2)
	r.requireSealed(t, o)
}

func TestRun_CancelledBetweenTwoAttempts_EndsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.dropLeaseAt(t, 2)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	r.events.at("again", func() { cancel(errStop) })
	o := r.options()
	o.HoldAttempts, o.Steady, o.SteadyTimeout = 3, 10*time.Hour, 20*time.Hour // who waits for that does not end
	result, err := r.run(ctx, t, o)
	require.ErrorIs(t, err, errStop)
	require.Equal(t, 1, result.Attempts)
	r.requireUndone(t, o)
}
