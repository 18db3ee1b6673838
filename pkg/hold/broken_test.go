package hold_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func itoa(id uint64) string { return strconv.FormatUint(id, 10) }

func TestHold_LeaseLost_IsBrokenAndNamesTheStore(t *testing.T) {
	t.Parallel()
	r, h := held(t)
	r.stores[1].DropLease()
	err := broken(t, h)
	require.ErrorContains(t, err, r.stores[1].Addr())
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.ErrorIs(t, h.Prove(within(t, 5*time.Second)), hold.ErrBroken)
	broke, err := h.Release(within(t, 10*time.Second))
	require.ErrorContains(t, broke, r.stores[1].Addr())
	require.NoError(t, err)
	r.requireFree(t)
}

// Between two renewals only the store's own answer at the end shows it.
func TestRelease_LeaseLostJustBefore_IsBroken(t *testing.T) {
	t.Parallel()
	r, h := held(t, func(c *hold.Config) { c.Lease = time.Minute })
	require.NoError(t, h.Prove(within(t, 5*time.Second)))
	r.stores[2].DropLease()
	broke, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, err)
	require.ErrorIs(t, broke, hold.ErrBroken)
	require.ErrorContains(t, broke, r.stores[2].Addr())
	r.requireFree(t)
}

func TestRelease_ImportsResumedByAnotherTool_IsBroken(t *testing.T) {
	t.Parallel()
	r, h := held(t, func(c *hold.Config) { c.Lease = time.Minute })
	_, err := r.tikv.ResumeImport(within(t, 5*time.Second), r.stores[0].Addr(), "someone")
	require.NoError(t, err)
	broke, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, err)
	require.ErrorContains(t, broke, "imports")
	require.ErrorContains(t, broke, r.stores[0].Addr())
}

func TestHold_ImportsResumedByAnotherTool_IsBrokenAtTheRenewal(t *testing.T) {
	t.Parallel()
	r, h := held(t)
	_, err := r.tikv.ResumeImport(within(t, 5*time.Second), r.stores[0].Addr(), "someone")
	require.NoError(t, err)
	require.ErrorContains(t, broken(t, h), "imports")
}

func TestHold_StoreKilled_IsBrokenAndNamesTheStore(t *testing.T) {
	t.Parallel()
	r, h := held(t)
	before := time.Now()
	r.stores[0].Kill()
	err := broken(t, h)
	require.ErrorContains(t, err, r.stores[0].Addr())
	var why *hold.BrokenError
	require.ErrorAs(t, err, &why)
	require.WithinRange(t, why.At, before, time.Now())
	require.Positive(t, why.After)
	require.ErrorContains(t, err, why.At.UTC().Format("15:04:05.000Z"))
}

func TestRelease_StoreKilled_IsHeldUntilItsLeaseExpires(t *testing.T) {
	t.Parallel()
	r, h := held(t, func(c *hold.Config) { c.Lease = 12 * time.Second })
	r.stores[0].Kill()
	start := time.Now()
	broke, err := h.Release(within(t, 10*time.Second))
	require.ErrorContains(t, broke, r.stores[0].Addr())
	require.Equal(t, failure.Held, failure.KindOf(err))
	require.ErrorContains(t, err, r.stores[0].Addr())
	hint := failure.HintOf(err)
	require.Contains(t, hint, "tisnap release tidb/prod")
	_, at, _ := strings.Cut(hint, "expire on their own at ")
	until, err := time.Parse(time.RFC3339, strings.TrimRight(at, ")"))
	require.NoError(t, err, hint)
	require.WithinRange(t, until, start, start.Add(12*time.Second+2*time.Second), hint)
	require.Empty(t, r.left(t), "all the others")
	require.Eventually(t, func() bool {
		_, err := h.Release(t.Context())
		return err == nil
	}, 30*time.Second, 100*time.Millisecond, "what has run out is not held")
	require.Greater(t, time.Since(start), 8*time.Second)
}

// The lease outlives its stream: it is ended by a new one.
func TestRelease_StreamLost_EndsTheLeaseByANewOne(t *testing.T) {
	t.Parallel()
	r, h := held(t, func(c *hold.Config) { c.Lease = time.Minute })
	r.fault(t, fault.Rule{Point: "tikv." + itoa(r.stores[1].ID()) + ".PrepareSnapshotBackup.Finish", Code: "Unavailable"})
	broke, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, err)
	require.ErrorIs(t, broke, hold.ErrBroken, "it is not proven")
	require.Empty(t, r.faults.Unreached())
	r.requireFree(t)
}

func TestHold_PDRestarted_IsBroken(t *testing.T) {
	t.Parallel()
	r, h := held(t)
	require.NoError(t, r.server.Restart())
	require.ErrorContains(t, broken(t, h), "schedulers")
	require.Eventually(t, func() bool { return len(r.server.Schedulers()) > 0 }, 20*time.Second, 10*time.Millisecond)
	for _, s := range r.server.Schedulers() {
		require.True(t, s.ResumeAt.IsZero(), "%s was paused again by a hold that broke", s.Name)
	}
	broke, err := h.Release(within(t, 10*time.Second))
	require.ErrorContains(t, broke, "schedulers")
	require.NoError(t, err)
	r.requireFree(t)
}

func TestProve_WhatPDForgot_IsBroken(t *testing.T) {
	t.Parallel()
	messages := map[string]string{
		"a pause": "not paused: balance-leader-scheduler", "a limit": "schedule.replica-schedule-limit", "the safe point": "tisnap-run-1",
		"GC itself": "GC", "a new scheduler": "not paused: shuffle-leader-scheduler",
	}
	for what, forget := range map[string]func(ctx context.Context, r *rig) error{
		"a pause": func(ctx context.Context, r *rig) error {
			return r.pd.ResumeScheduler(ctx, r.server.Schedulers()[1].Name)
		},
		"a limit": func(ctx context.Context, r *rig) error {
			return r.pd.DropTTLConfig(ctx, []string{"schedule.replica-schedule-limit"})
		},
		"the safe point":  func(ctx context.Context, r *rig) error { return r.pd.ReleaseGC(ctx, "tisnap-run-1") },
		"GC itself":       func(_ context.Context, r *rig) error { r.server.SetGCSafePoint(1 << 62); return nil },
		"a new scheduler": func(_ context.Context, r *rig) error { r.server.AddScheduler("shuffle-leader-scheduler"); return nil },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, h := held(t, func(c *hold.Config) { c.Lease = time.Minute })
			ctx := within(t, 20*time.Second)
			require.NoError(t, h.Prove(ctx), "before")
			require.NoError(t, forget(ctx, r))
			err := h.Prove(ctx)
			require.ErrorIs(t, err, hold.ErrBroken)
			require.ErrorContains(t, err, messages[what])
			inner, cancel := h.Context(ctx)
			defer cancel()
			<-inner.Done()
			broke, err := h.Release(ctx)
			require.ErrorContains(t, broke, messages[what])
			require.NoError(t, err)
			r.requireFree(t)
		})
	}
}

func TestHold_PDAwayForAMoment_Holds(t *testing.T) {
	t.Parallel()
	r, h := held(t)
	r.fault(t, fault.Rule{Point: "pd.SetTTLConfig", Code: "503", Times: 2})
	// One call took the hold; two were refused, and one more has renewed it.
	require.Eventually(t, func() bool { return r.faults.Calls("pd.SetTTLConfig") >= 1+2+1 }, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, h.Prove(within(t, 5*time.Second)))
	broke, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, broke)
	require.NoError(t, err)
	r.requireFree(t)
}

func TestContext_EndedByItsParent_HasTheParentsCause(t *testing.T) {
	t.Parallel()
	_, h := held(t)
	reason := errors.New("interrupted")
	parent, end := context.WithCancelCause(t.Context())
	ctx, cancel := h.Context(parent)
	end(reason)
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), reason)
	cancel()
	cancel() // may be called again
	require.NoError(t, h.Prove(within(t, 5*time.Second)), "the hold itself continues")
}

func TestHold_OverItsBudget_IsBroken(t *testing.T) {
	t.Parallel()
	r, h := held(t, func(c *hold.Config) { c.MaxHold = 2 * time.Second })
	err := broken(t, h)
	require.Equal(t, failure.Limited, failure.KindOf(err))
	require.ErrorContains(t, err, "--max-hold 2s")
	require.ErrorIs(t, h.PauseGC(within(t, 5*time.Second), 1), hold.ErrBroken, "nothing more is paused")
	broke, err := h.Release(within(t, 10*time.Second))
	require.Error(t, broke)
	require.NoError(t, err)
	r.requireFree(t)
}

// Stuck code never calls Release: the hold releases the cluster by itself.
func TestHold_BrokenAndNotReleased_ReleasesByItself(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	r, h := held(t, func(c *hold.Config) {
		c.MaxHold, c.Grace, c.Lease, c.Log = 2*time.Second, 200*time.Millisecond, time.Minute, zap.New(core)
	})
	require.Eventually(t, func() bool { return len(r.server.TTLConfigs()) == 0 }, 30*time.Second, 20*time.Millisecond)
	require.Eventually(t, func() bool { return len(r.left(t)) == 0 }, 30*time.Second, 20*time.Millisecond)
	r.requireFree(t)
	require.NotEmpty(t, logs.FilterMessageSnippet("release").All())
	broke, err := h.Release(within(t, 10*time.Second))
	require.ErrorContains(t, broke, "--max-hold")
	require.NoError(t, err)
}

// While PD does not answer, releasing is tried again and again, and Release takes over.
func TestRelease_WhileLettingGoByItself_TakesOver(t *testing.T) {
	t.Parallel()
	r, h := held(t, func(c *hold.Config) { c.Grace, c.Lease = 100*time.Millisecond, time.Minute })
	r.fault(t, fault.Rule{Point: "pd.DropTTLConfig", Position: fault.Stall})
	r.stores[0].DropLease()
	require.NoError(t, r.pd.ResumeScheduler(within(t, 5*time.Second), r.server.Schedulers()[0].Name))
	require.Error(t, h.Prove(within(t, 5*time.Second))) // breaks it
	require.Eventually(t, func() bool { return len(r.faults.Unreached()) == 0 }, 30*time.Second, 10*time.Millisecond)
	_, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, err)
	r.requireFree(t)
}

func TestRelease_PDAway_IsHeldAndASecondTryReleases(t *testing.T) {
	t.Parallel()
	r, h := held(t, func(c *hold.Config) { c.Lease = time.Minute })
	r.fault(t, fault.Rule{Point: "pd.DropTTLConfig", Code: "400"})
	_, err := h.Release(within(t, 10*time.Second))
	require.Equal(t, failure.Held, failure.KindOf(err))
	require.Contains(t, failure.HintOf(err), "tisnap release tidb/prod")
	_, err = h.Release(within(t, 10*time.Second))
	require.NoError(t, err)
	r.requireFree(t)
}

func TestRelease_SchedulerRemovedMeanwhile_IsNothingToResume(t *testing.T) {
	t.Parallel()
	r, h := held(t, func(c *hold.Config) { c.Lease = time.Minute })
	r.fault(t, fault.Rule{Point: "pd.ResumeScheduler", Code: "[PD:scheduler:ErrSchedulerNotFound]scheduler not found", Times: 1})
	_, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, err)
	require.Empty(t, r.faults.Unreached())
	require.Len(t, r.left(t), 1, "all but the one that PD denied")
}
