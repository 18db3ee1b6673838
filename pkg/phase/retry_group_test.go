package phase_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

var errBroken = errors.New("broken")

// group is a run of lock, hold, cut and seal whose hold and cut may be attempted three times; cut fails
// the given number of times.
func group(tr *trace, failures int) ([]phase.Step, *phase.RetryGroup) {
	cut := tr.step("cut", nil)
	cut.Do = func(context.Context, *phase.Scope) error {
		tr.did = append(tr.did, "cut")
		if failures--; failures >= 0 {
			return fmt.Errorf("store 2: %w", errBroken)
		}
		return nil
	}
	return []phase.Step{tr.step("lock", nil), tr.step("hold", nil), cut, tr.step("seal", nil)}, &phase.RetryGroup{
		From: "hold", To: "cut", Attempts: 3, Phase: "hold again", Deadline: time.Minute,
		Worth: func(_ string, err error) bool { return errors.Is(err, errBroken) },
		Ready: func(context.Context, *phase.Scope) error { tr.did = append(tr.did, "ready"); return nil },
	}
}

func TestRun_GroupBreaksTwice_IsUndoneAndDoneFromScratch(t *testing.T) {
	t.Parallel()
	j, tr := &memory{}, &trace{}
	steps, retried := group(tr, 2)
	e := phase.New(phase.Config{Journal: j, Group: retried})
	require.NoError(t, e.Run(t.Context(), steps))
	require.Equal(t, []string{
		"lock", "hold", "cut", "undo cut", "undo hold", "ready", "hold", "cut", "undo cut", "undo hold", "ready", "hold", "cut", "seal",
	}, tr.did)
	attempts := e.FailedAttempts()
	require.Len(t, attempts, 2)
	require.Equal(t, 2, attempts[1].Number)
	require.Equal(t, "cut", attempts[1].Step)
	require.Equal(t, "store 2: broken", attempts[1].Error)
	var phases []string
	for _, p := range e.Timings() {
		phases = append(phases, fmt.Sprint(p.Phase, " ", p.Attempt, " ", p.Outcome))
	}
	require.Equal(t, []string{
		"lock 0 done", "hold 0 done", "cut 0 failed", "hold again 2 done", "hold 2 done", "cut 2 failed",
		"hold again 3 done", "hold 3 done", "cut 3 done", "seal 0 done",
	}, phases)
	require.Contains(t, j.lines(), "again hold")

	// A second process that finds this journal does nothing twice.
	tr.did = nil
	steps, retried = group(tr, 0)
	require.NoError(t, phase.New(phase.Config{Journal: j, Group: retried}).Run(t.Context(), steps))
	require.Empty(t, tr.did)
}

func TestRun_GroupBreaksTooOften_FailsWithTheCount(t *testing.T) {
	t.Parallel()
	tr := &trace{}
	steps, retried := group(tr, 3)
	e := phase.New(phase.Config{Journal: &memory{}, Group: retried})
	err := e.Run(t.Context(), steps)
	require.ErrorIs(t, err, errBroken)
	require.EqualError(t, err, "attempt 3 of 3: store 2: broken")
	require.Len(t, e.FailedAttempts(), 3)
	require.Equal(t, []string{"undo cut", "undo hold", "undo lock"}, tr.did[len(tr.did)-3:])
}

func TestRun_GroupFails_NoFurtherAttempt(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(steps []phase.Step, a *phase.RetryGroup, cancel func()){
		"one attempt": func(_ []phase.Step, a *phase.RetryGroup, _ func()) { a.Attempts = 1 },
		"not worth it": func(_ []phase.Step, a *phase.RetryGroup, _ func()) {
			a.Worth = func(string, error) bool { return false }
		},
		"never ready": func(_ []phase.Step, a *phase.RetryGroup, _ func()) {
			a.Ready = func(context.Context, *phase.Scope) error { return errors.New("unsteady") }
		},
		"outside of it": func(steps []phase.Step, a *phase.RetryGroup, _ func()) { a.To = "hold" },
		"cancelled": func(steps []phase.Step, a *phase.RetryGroup, cancel func()) {
			steps[2].Do = func(context.Context, *phase.Scope) error { cancel(); return errBroken }
		},
		"a panic": func(steps []phase.Step, _ *phase.RetryGroup, _ func()) {
			steps[2].Do = func(context.Context, *phase.Scope) error { panic(errBroken) }
		},
		"cannot be undone": func(steps []phase.Step, _ *phase.RetryGroup, _ func()) {
			steps[1].Undo.Do = func(context.Context, *phase.Scope) error {
				return failure.New(failure.Held, "release", "", "no answer")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			tr := &trace{}
			steps, retried := group(tr, 9)
			change(steps, retried, cancel)
			err := phase.New(phase.Config{Journal: &memory{}, Group: retried}).Run(ctx, steps)
			require.Error(t, err)
			done := 0
			for _, did := range tr.did {
				if did == "hold" {
					done++
				}
			}
			require.Equal(t, 1, done, "%v", tr.did)
			require.Equal(t, name == "cannot be undone", failure.Is(err, failure.Held))
			require.Equal(t, name == "never ready", err.Error() == "unsteady\nstore 2: broken", "%v", err)
		})
	}
}

// What a second try puts back is not held any more, and is not reported to be.
func TestRun_UndoFailsOnceAndThenSucceeds_IsNotHeld(t *testing.T) {
	t.Parallel()
	tr := &trace{}
	steps, retried := group(tr, 9)
	undos := 0
	steps[1].Undo.Do = func(context.Context, *phase.Scope) error {
		if undos++; undos == 1 {
			return failure.New(failure.Held, "release", "", "no answer")
		}
		return nil
	}
	err := phase.New(phase.Config{Journal: &memory{}, Group: retried}).Run(t.Context(), steps)
	require.ErrorIs(t, err, errBroken)
	require.Equal(t, 2, undos)
	require.NotEqual(t, failure.Held, failure.KindOf(err))
}

func TestRun_StepPanics_IsUndoneAndTheStackIsLogged(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.ErrorLevel)
	j, tr := &memory{}, &trace{}
	bad := tr.step("hold", nil)
	bad.Retry = true
	bad.Do = func(context.Context, *phase.Scope) error { panic("nil map") }
	worse := tr.step("lock", nil)
	worse.Undo.Do = func(context.Context, *phase.Scope) error { panic("twice") }
	err := phase.New(phase.Config{Journal: j, Log: zap.New(core)}).Run(t.Context(), []phase.Step{tr.step("first", nil), worse, bad})
	require.ErrorContains(t, err, "hold: panic: nil map")
	require.ErrorContains(t, err, "undo lock: lock: panic: twice")
	require.Equal(t, []string{"first", "lock", "undo hold", "undo first"}, tr.did)
	require.Len(t, logs.All(), 2)
	require.Contains(t, logs.All()[0].ContextMap()["stack"], "TestRun_StepPanics")
	last := j.records[len(j.records)-1]
	require.Equal(t, phase.RecordEnd, last.Type)
	require.Contains(t, last.Error, "nil map")
}

func TestRun_GroupNamesNoSteps_IsRefused(t *testing.T) {
	t.Parallel()
	tr := &trace{}
	steps, retried := group(tr, 0)
	retried.To = "lock"
	require.Error(t, phase.New(phase.Config{Journal: &memory{}, Group: retried}).Run(t.Context(), steps))
	require.Empty(t, tr.did)
}

// While a group is attempted a live cluster is held: it does not wait for a journal that is away. What comes after it may
// be the work of hours, and does.
func TestRun_JournalAwayForAWhile_IsWaitedForOutsideTheGroup(t *testing.T) {
	t.Parallel()
	for at, want := range map[string]struct {
		waits bool
	}{"lock": {true}, "hold": {false}, "cut": {true}, "seal": {true}} {
		t.Run("begin of "+at, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var away time.Time
				j := &memory{refuse: func(r phase.Record) error {
					if r.Type == phase.RecordBegin && r.Step == at && away.IsZero() {
						away = time.Now()
					}
					if !away.IsZero() && time.Since(away) < 2*time.Minute {
						return failure.New(failure.Limited, "write", "", "503")
					}
					return nil
				}}
				tr := &trace{}
				steps, retried := group(tr, 0)
				retried.Attempts = 1
				start := time.Now()
				err := phase.New(phase.Config{Journal: j, Group: retried, JournalPatience: 10 * time.Minute}).Run(t.Context(), steps)
				if want.waits {
					require.NoError(t, err)
					require.GreaterOrEqual(t, time.Since(start), 2*time.Minute)
					return
				}
				require.Equal(t, failure.Limited, failure.KindOf(err))
				require.Less(t, time.Since(start), time.Second)
				require.Equal(t, []string{"lock", "undo lock"}, tr.did)
			})
		})
	}
}
