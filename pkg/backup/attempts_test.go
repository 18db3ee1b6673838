package backup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/preflight"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
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
	require.Contains(t, first.Error, r.c.Stores()[1].Addr(), "says which store")
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

// What is let go at the second try is not said to be held (exit 9).
func TestRun_ReleaseFailsAtFirst_IsTriedUntilItIsLetGo(t *testing.T) {
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

func TestRun_AStepPanics_IsLetGo(t *testing.T) {
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

func TestRun_BackupTSBelowAnEarlierBackup_IsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.options()
	sealed, err := r.run(t.Context(), t, first)
	require.NoError(t, err)
	before := len(r.bed.MutatingCalls())
	for name, test := range map[string]struct {
		change func(m *manifest.Manifest)
		ok     bool
	}{
		"of this cluster":      {func(*manifest.Manifest) {}, false},
		"of another PD":        {func(m *manifest.Manifest) { m.Source.ClusterID++ }, true},
		"of another namespace": {func(m *manifest.Manifest) { m.Source.Cluster.Namespace = "other" }, true},
	} {
		m := *sealed.Manifest
		m.ID = cluster.BackupID("future-" + name[len(name)-2:])
		m.BackupTS = cluster.MakeTS(time.Now().Add(time.Hour), 0)
		m.MaxTS = m.BackupTS + 1
		test.change(&m)
		c := catalog.Catalog{Store: r.store}
		require.NoError(t, c.PutManifest(t.Context(), &m))
		require.NoError(t, c.Seal(t.Context(), m.ID, time.Now(), 0))
		_, err = backup.Plan(t.Context(), r.deps, r.options())
		require.NoError(t, c.Remove(t.Context(), m.ID))
		if test.ok {
			require.NoError(t, err, name)
			continue
		}
		require.Equal(t, failure.Unready, failure.KindOf(err))
		require.ErrorContains(t, err, "below that of the earlier backup "+string(m.ID))
	}
	require.Len(t, r.bed.MutatingCalls(), before)
}

func TestRun_ConsistentNow_HoldsWhatWasCommittedBeforeTheStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	start, err := r.deps.PD.Now(t.Context())
	require.NoError(t, err)
	// The resolved ts stands still for a while.
	r.fault(t, fault.Rule{Point: "tikv.*.ResolvedTS", Times: 12})
	o := r.options()
	o.ConsistentNow = true
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	require.Empty(t, r.faults.Unreached())
	require.Greater(t, result.Manifest.BackupTS, start)
	require.NotZero(t, result.Timings.Seconds("create task"))

	// On one store it never moves: the run says which.
	lagging := r.c.Stores()[slices.IndexFunc(r.c.Stores(), leads)]
	r.fault(t, fault.Rule{Point: fmt.Sprintf("tikv.%d.ResolvedTS", lagging.ID()), Times: -1})
	before := len(r.c.PD.MutatingCalls())
	o = r.options()
	o.ConsistentNow, o.ConsistentTimeout = true, time.Second
	_, err = r.run(t.Context(), t, o)
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, lagging.Addr())
	require.Len(t, r.c.PD.MutatingCalls(), before)
}

// leads reports whether the store leads a region: others do not count for the resolved ts.
func leads(s *tikvtest.Store) bool {
	return slices.ContainsFunc(s.Peers(), func(p tikvtest.PeerState) bool { return p.Leader })
}

func TestRun_ImportRuns(t *testing.T) {
	t.Parallel()
	const key = "/tidb/brie/import/lightning/orders"
	r := newRig(t)
	r.c.PD.SetEtcd(key, "")
	before := len(r.bed.MutatingCalls())
	_, err := r.run(t.Context(), t, r.options())
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "lightning orders")
	require.Len(t, r.bed.MutatingCalls(), before, "refused before anything was changed")

	o := r.options()
	o.OnImport, o.ImportTimeout = preflight.WaitOnImport, 300*time.Millisecond
	_, err = r.run(t.Context(), t, o)
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "after 300ms an import still runs: lightning orders")
	require.Len(t, r.bed.MutatingCalls(), before)

	o = r.options()
	o.OnImport = preflight.PauseOnImport
	_, err = r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
}

func TestOptions_Contradictions_AreUsage(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]backup.Options{
		"lease of max-hold":   {Lease: time.Minute, MaxHold: time.Minute},
		"short lease":         {Lease: time.Second},
		"short max-hold":      {MaxHold: 2 * time.Second},
		"no attempts":         {HoldAttempts: -1},
		"steady for too long": {Steady: time.Minute, SteadyTimeout: time.Second},
		"import policy":       {OnImport: "ignore"},
	} {
		require.Equal(t, failure.Usage, failure.KindOf(o.Validate()), name)
		_, err := backup.Run(t.Context(), backup.Deps{}, o)
		require.Equal(t, failure.Usage, failure.KindOf(err), name)
	}
	o := backup.Options{MaxHold: 8 * time.Second}
	require.NoError(t, o.Validate(), "the default lease gives way")
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
	o.HoldAttempts, o.Steady = 3, 30*time.Second
	start := time.Now()
	result, err := r.run(ctx, t, o)
	require.ErrorIs(t, err, errStop)
	require.Equal(t, 1, result.Attempts)
	require.Less(t, time.Since(start), 25*time.Second)
	r.requireUndone(t, o)
}
