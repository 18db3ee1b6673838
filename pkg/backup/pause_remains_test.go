package backup_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/phase"
)

// A process that is ended at once has to say what it holds at that moment.
func TestPause_SaysWhatItHolds(t *testing.T) {
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
