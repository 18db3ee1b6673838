package backup_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// A process that is ended at once has to report what it holds at that moment.
func TestPause_ReportsWhatItHolds(t *testing.T) {
	t.Parallel()
	r := newEarlyRig(t)
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	var lines []string
	var held bool
	remains := new(phase.Remains)
	err := backup.Pause(ctx, backup.PauseDeps{PD: r.deps.PD, TiKV: r.deps.TiKV, EarlyApply: r.tikv, Log: zap.NewNop(), Remains: remains}, backup.PauseOptions{
		Cluster: r.options().Cluster, Run: "pause", Lease: 30 * time.Second, MaxHold: time.Minute,
		Ready: func() {
			lines, held = remains.Lines()
			end()
		},
	})
	require.NoError(t, err)
	require.True(t, held)
	require.Contains(t, lines[0], "is still held by run pause")
	require.Contains(t, lines[1], "max-apply-unpersisted-log-limit was 1024 on store ")
	lines, held = remains.Lines()
	require.False(t, held, "%v", lines)
}

// A run that turned early apply off is continued by a command that puts it back. Journals of versions without the option have no word
// of it.
func TestRequest_EarlyApply_IsThereIfItIsNotTheDefault(t *testing.T) {
	t.Parallel()
	for policy, want := range map[backup.EarlyApplyPolicy]string{
		"": "", backup.PreventEarlyApply: "", backup.IgnoreEarlyApply: "ignore", backup.RequireNoEarlyApply: "require",
	} {
		require.Equal(t, want, (&backup.Options{EarlyApply: policy}).Request()["early-apply"])
	}
}

// What a pause does about early apply is the user's: nothing at all, or nothing without it.
func TestPause_EarlyApply_IsDoneAsAskedFor(t *testing.T) {
	t.Parallel()
	pause := func(t *testing.T, r *rig, policy backup.EarlyApplyPolicy) (during []uint64, err error) {
		t.Helper()
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		err = backup.Pause(ctx, backup.PauseDeps{PD: r.deps.PD, TiKV: r.deps.TiKV, EarlyApply: r.tikv, Log: zap.NewNop()}, backup.PauseOptions{
			Cluster: r.options().Cluster, Run: "pause", Lease: 30 * time.Second, MaxHold: time.Minute, EarlyApply: policy,
			Ready: func() {
				during = r.limits(t)
				end()
			},
		})
		require.Equal(t, []uint64{1024, 1024, 1024}, r.limits(t), "all is put back")
		return during, err
	}
	t.Run("ignore", func(t *testing.T) {
		t.Parallel()
		during, err := pause(t, newEarlyRig(t), backup.IgnoreEarlyApply)
		require.NoError(t, err)
		require.Equal(t, []uint64{1024, 1024, 1024}, during)
	})
	t.Run("require", func(t *testing.T) {
		t.Parallel()
		r := newEarlyRig(t)
		r.c.Stores()[1].CloseStatusPort()
		during, err := pause(t, r, backup.RequireNoEarlyApply)
		require.Equal(t, failure.Unready, failure.KindOf(err), err)
		require.Empty(t, during, "it was never ready")
	})
}
