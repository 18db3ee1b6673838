package resolve_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// awaitPaused returns once PD has schedulers and all of them are paused: its coordinator may start after a quick resolve
// has ended, and before it does there is nothing to resume.
func (l *lab) awaitPaused(t *testing.T) {
	require.Eventually(t, func() bool {
		list := l.pd.Schedulers()
		return len(list) > 0 && !slices.ContainsFunc(list, func(s pdtest.Scheduler) bool { return s.PausedAt.IsZero() })
	}, patience, 5*time.Millisecond, "PD's schedulers are not paused")
}

// thawInPart: what PD does not release keeps nothing else from being released, and the next thaw finds the rest. A scheduler
// that a new leader of PD does not have yet is not paused: it is no error.
func thawInPart(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	r, err := l.run(t, l.config(o, "run"), nil)
	require.NoError(t, err)
	l.awaitPaused(t)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "pd.ResumeScheduler", Code: "[PD:scheduler:ErrSchedulerNotFound]scheduler not found", Times: 1}))
	require.NoError(t, l.faults.Add(fault.Rule{Point: "pd.DropTTLConfig", Code: "403", Times: -1}))
	err = r.Thaw(within(t), nil)
	require.ErrorContains(t, err, "restore limits")
	require.NotContains(t, err.Error(), "scheduler not found")
	require.NotEmpty(t, l.pd.TTLConfigs())
	require.NotContains(t, l.pd.ServiceSafePoints(), "tisnap-run", "GC is released all the same")
	paused := 0
	for _, s := range l.pd.Schedulers() {
		if !s.PausedAt.IsZero() {
			paused++
		}
	}
	require.LessOrEqual(t, paused, 1, "the one that PD reported missing, at most")

	l.faults.Clear()
	require.NoError(t, r.Thaw(within(t), nil))
	require.Empty(t, l.pd.TTLConfigs())
	for _, s := range l.pd.Schedulers() {
		require.Zero(t, s.PausedAt, s.Name)
	}
}

// takenWhileThawing: a process that was suspended in a call that releases PD sends the next one no more, if another run has
// the cluster when it wakes up.
func takenWhileThawing(t *testing.T, o *original) {
	l := restoreLab(t, o, 1)
	cfg := l.config(o, "first")
	var taken atomic.Bool
	cfg.Fence = &checkFence{check: func(context.Context) error {
		if taken.Load() {
			return failure.New(failure.Conflict, "check lock", "", "taken over by run second")
		}
		return nil
	}}
	r, err := l.run(t, cfg, nil)
	require.NoError(t, err)
	l.awaitPaused(t)
	require.NoError(t, l.faults.Add(fault.Rule{Point: "pd.ResumeScheduler", Position: fault.Slow, Do: func() { taken.Store(true) }}))
	err = r.Thaw(within(t), nil)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Empty(t, l.faults.Unreached())
	require.NotEmpty(t, l.pd.TTLConfigs(), "they are the second one's now")
	require.Contains(t, l.pd.ServiceSafePoints(), "tisnap-first")
}
