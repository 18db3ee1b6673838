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
	r := newRig(t)
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	var lines []string
	var held bool
	remains := new(phase.Remains)
	err := backup.Pause(ctx, backup.PauseDeps{PD: r.deps.PD, TiKV: r.deps.TiKV, Log: zap.NewNop(), Remains: remains}, backup.PauseOptions{
		Cluster: r.options().Cluster, Run: "pause", Lease: 30 * time.Second, MaxHold: time.Minute,
		Ready: func() {
			lines, held = remains.Lines()
			end()
		},
	})
	require.NoError(t, err)
	require.True(t, held)
	require.Contains(t, lines[0], "is still held by run pause")
	lines, held = remains.Lines()
	require.False(t, held, "%v", lines)
}
