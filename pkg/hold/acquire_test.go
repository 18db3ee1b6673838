package hold_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

func TestNew_WithoutStoresOrWithShortLease_IsRefused(t *testing.T) {
	t.Parallel()
	_, err := hold.New(hold.Config{Cluster: name, Run: "r"}, nil, nil)
	require.Equal(t, failure.Unready, failure.KindOf(err))
	_, err = hold.New(hold.Config{Cluster: name, Run: "r", Stores: []hold.Target{{ID: 1}}, Lease: time.Second}, nil, nil)
	require.Equal(t, failure.Usage, failure.KindOf(err))
}

func TestConnect_StoreAway_PausesNothingAnywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stores[1].Kill()
	h := r.newHold(t)
	err := h.Connect(within(t, 10*time.Second))
	require.ErrorContains(t, err, r.stores[1].Addr())
	broke, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, broke)
	require.NoError(t, err)
	require.Empty(t, r.server.MutatingCalls())
	for _, s := range r.stores {
		require.Empty(t, s.MutatingCalls())
	}
}

func TestAcquire_HoldsEverything_AndReleaseLeavesNothing(t *testing.T) {
	t.Parallel()
	r, h := held(t)
	for _, s := range r.server.Schedulers() {
		require.False(t, s.ResumeAt.IsZero(), s.Name)
	}
	require.Equal(t, "0", r.server.TTLConfigs()["schedule.region-schedule-limit"])
	require.Contains(t, r.server.ServiceSafePoints(), "tisnap-run-1")
	require.Error(t, tikvtest.SplitAt(within(t, 300*time.Millisecond), r.stores, []byte("held")))
	require.NoError(t, h.Prove(within(t, 5*time.Second)))
	require.Positive(t, h.Length())
	for range 2 { // idempotent
		broke, err := h.Release(within(t, 10*time.Second))
		require.NoError(t, broke)
		require.NoError(t, err)
		r.requireFree(t)
	}
	var parts []string
	for _, p := range h.Parts() {
		parts = append(parts, p.Name)
	}
	require.Subset(t, parts, []string{"connect", "pause schedulers", "pause admin commands", "wait apply", "pause gc", "prove", "release"})
}

// A hold that lasts several leases is renewed, and proven to the end.
func TestHold_LongerThanItsLease_IsRenewed(t *testing.T) {
	t.Parallel()
	r, h := held(t)
	require.Eventually(t, func() bool { return h.Length() > lease+1500*time.Millisecond }, 20*time.Second, 50*time.Millisecond)
	require.NoError(t, h.Prove(within(t, 5*time.Second)))
	broke, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, broke)
	require.NoError(t, err)
	r.requireFree(t)
}

func TestRelease_SchedulerPausedByAnotherTool_StaysPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	theirs := r.server.Schedulers()[0].Name
	require.NoError(t, r.server.PauseByOther(theirs, time.Minute))
	h := r.newHold(t)
	require.NoError(t, r.acquire(within(t, 20*time.Second), h))
	require.NoError(t, h.Prove(within(t, 5*time.Second)))
	broke, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, broke)
	require.NoError(t, err)
	require.Equal(t, []string{"scheduler " + theirs}, r.left(t))
	for _, call := range r.server.MutatingCalls() {
		require.False(t, strings.HasSuffix(call, "Scheduler "+theirs), call)
	}
}

func TestPauseScheduling_LimitOfAnotherTool_IsConflict(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := within(t, 20*time.Second)
	require.NoError(t, r.pd.SetTTLConfig(ctx, map[string]any{"schedule.merge-schedule-limit": 3}, time.Minute))
	h := r.newHold(t)
	require.NoError(t, h.Connect(ctx))
	err := h.PauseScheduling(ctx)
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, "schedule.merge-schedule-limit")
	require.NotEmpty(t, failure.HintOf(err))
	_, err = h.Release(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"schedule.merge-schedule-limit": "3"}, r.server.TTLConfigs())
}

// An override of theirs with the value that the hold needs stays theirs, with the time that it has left.
func TestRelease_LimitLoweredByAnotherTool_StaysLowered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := within(t, 30*time.Second)
	require.NoError(t, r.pd.SetTTLConfig(ctx, map[string]any{"schedule.merge-schedule-limit": 0}, 10*time.Minute))
	h := r.newHold(t)
	lowered, err := h.Lowered(ctx)
	require.NoError(t, err)
	require.Len(t, lowered, 7)
	require.NoError(t, r.acquire(ctx, h))
	require.NoError(t, h.Prove(ctx))
	broke, err := h.Release(ctx)
	require.NoError(t, broke)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"schedule.merge-schedule-limit": "0"}, r.server.TTLConfigs())
	left, err := r.pd.Overrides(ctx)
	require.NoError(t, err)
	require.Greater(t, time.Until(left[0].Until), 9*time.Minute)

	// Dropped by them within a hold, it is not in force any more.
	h = r.newHold(t, func(c *hold.Config) { c.Run = "run-2" })
	require.NoError(t, r.acquire(ctx, h))
	require.NoError(t, r.pd.DropTTLConfig(ctx, []string{"schedule.merge-schedule-limit"}))
	require.ErrorContains(t, h.Prove(ctx), "merge-schedule-limit")
}

func TestPauseScheduling_NoCoordinator_IsUnready(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, s := range r.stores {
		s.Kill() // no heartbeats: after a restart the coordinator does not start
	}
	require.NoError(t, r.server.Restart())
	h := r.newHold(t)
	require.Eventually(t, func() bool {
		return failure.Is(h.PauseScheduling(t.Context()), failure.Unready)
	}, 20*time.Second, 20*time.Millisecond)
}

func TestPauseGC_SafePointPast_IsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := within(t, 20*time.Second)
	ts, err := r.pd.Now(ctx)
	require.NoError(t, err)
	r.server.SetGCSafePoint(uint64(ts) + 1)
	h := r.newHold(t)
	require.NoError(t, h.Connect(ctx))
	err = h.PauseGC(ctx, ts)
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.Contains(t, failure.HintOf(err), "tidb_gc_life_time")
	_, err = h.Release(ctx)
	require.NoError(t, err)
	r.requireFree(t)
}

// A second orchestrator must not ride on the leases of the first, nor end them.
func TestPauseStores_LeaseOfAnotherTool_IsConflictAndStays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := within(t, 30*time.Second)
	other, err := r.tikv.OpenLease(ctx, r.stores[2].Addr())
	require.NoError(t, err)
	defer other.Close()
	_, err = other.Renew(ctx, time.Minute)
	require.NoError(t, err)
	h := r.newHold(t)
	err = r.acquire(ctx, h)
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorContains(t, err, r.stores[2].Addr())
	require.Contains(t, failure.HintOf(err), "other backup")
	_, err = h.Release(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"lease of store " + itoa(r.stores[2].ID())}, r.left(t))
	again, err := r.tikv.OpenLease(ctx, r.stores[2].Addr())
	require.NoError(t, err)
	valid, err := again.Finish(ctx)
	require.NoError(t, err)
	require.True(t, valid, "their lease")
	r.requireFree(t)
}

func TestPauseStores_ImportsSuspendedByAnotherTool_IsConflictAndStays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := within(t, 30*time.Second)
	_, err := r.tikv.SuspendImport(ctx, r.stores[0].Addr(), "br", time.Minute)
	require.NoError(t, err)
	h := r.newHold(t)
	require.Equal(t, failure.Conflict, failure.KindOf(r.acquire(ctx, h)))
	_, err = h.Release(ctx)
	require.NoError(t, err)
	still, err := r.tikv.ResumeImport(ctx, r.stores[0].Addr(), "br")
	require.NoError(t, err)
	require.True(t, still)
	r.requireFree(t)
}

// A region that cannot apply for longer than the lease does not keep the renewals from being sent.
func TestPauseStores_SlowWaitApply_DoesNotBreakTheHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{Point: "tikv.*.PrepareSnapshotBackup.WaitApply.Region", Position: fault.Slow, Delay: lease + 2*time.Second})
	h := r.newHold(t)
	require.NoError(t, r.acquire(within(t, 30*time.Second), h))
	require.Empty(t, r.faults.Unreached())
	require.Greater(t, h.Length(), lease+2*time.Second)
	require.NoError(t, h.Prove(within(t, 5*time.Second)))
	broke, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, broke)
	require.NoError(t, err)
	r.requireFree(t)
}

func TestPauseStores_AbortedRegion_IsAskedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fault(t, fault.Rule{Point: "tikv.*.PrepareSnapshotBackup.WaitApply.Region", Code: "epoch_not_match", Times: 3})
	h := r.newHold(t)
	require.NoError(t, r.acquire(within(t, 30*time.Second), h))
	require.GreaterOrEqual(t, r.regionWaits(), 4+3)
}

func (r *rig) regionWaits() int {
	n := 0
	for _, s := range r.stores {
		n += r.faults.Calls("tikv." + itoa(s.ID()) + ".PrepareSnapshotBackup.WaitApply.Region")
	}
	return n
}
