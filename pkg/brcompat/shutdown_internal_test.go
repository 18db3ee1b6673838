package brcompat

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zapcore"

	"github.com/tisnap/tisnap/pkg/phase"
)

// stopped is an app that has its log, and what it writes there and to stderr.
func stopped(t *testing.T, grace time.Duration) (a *app, log, stderr *bytes.Buffer) {
	t.Helper()
	log, stderr = new(bytes.Buffer), new(bytes.Buffer)
	terminal, err := newLogger(&Common{LogLevel: "info", LogFormat: "text"}, zapcore.AddSync(log))
	require.NoError(t, err)
	a = &app{streams: Streams{Out: log, Err: stderr}}
	a.signalLog.Store(&logger{Logger: terminal, echo: terminal, ends: terminal})
	a.bound(grace)
	return a, log, stderr
}

// A pod is killed at the end of its grace period. Before that each undo that is left has had its second, and two lines, which
// wait a second for their reader at most, are written.
func TestStop_EachGracePeriod_LeavesRoomForWhatComesLast(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]time.Duration{"backup": BackupGrace, "restore": RestoreGrace} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.GreaterOrEqual(t, endTime(grace)-undoTime(grace), time.Second)
			require.Greater(t, grace-endTime(grace), 2*time.Second)
			a, log, _ := stopped(t, grace)
			before := time.Now()
			cause, over := a.stop(syscall.SIGTERM)
			require.NotNil(t, over)
			require.ErrorIs(t, cause, errStopped)
			require.False(t, cause.UndoBy.Before(before.Add(undoTime(grace))))
			a.logStopping(syscall.SIGTERM)
			require.Contains(t, log.String(), "[undo-within="+undoTime(grace).String()+"] [end-within="+endTime(grace).String()+"]")
		})
	}
}

// A pause releases it by a few calls with bounds of their own: its process ends when that is done, and reports how it went.
func TestStop_Pause_EndsWithItsRun(t *testing.T) {
	t.Parallel()
	a, _, _ := stopped(t, 0)
	_, over := a.stop(syscall.SIGTERM)
	require.Nil(t, over)
}

func TestLeave_ListsLeftovers_OnceOnStderr(t *testing.T) {
	t.Parallel()
	a, log, stderr := stopped(t, RestoreGrace)
	require.Equal(t, ExitFailed, a.leave("why"))
	require.Contains(t, log.String(), "[ERROR]")
	require.Contains(t, log.String(), "[error=why]")
	require.Contains(t, stderr.String(), "nothing is held")
	a.left.Set("volumes", func() string { return "up to 3 volumes" })
	require.Equal(t, ExitFailed, a.leave("why"))
	require.Equal(t, 1, strings.Count(stderr.String(), "left: up to 3 volumes"), stderr.String())
	require.NotContains(t, log.String(), "up to 3 volumes", "stdout does not repeat it")
	a.left.Set(phase.RemainsHold, func() string { return "the hold" })
	require.Equal(t, ExitHeld, a.leave("why"))
}

// Whoever reads --log-file later has stderr no more.
func TestLeave_LogIsAFile_HasWhatIsLeft(t *testing.T) {
	t.Parallel()
	a, log, stderr := stopped(t, RestoreGrace)
	a.signalLog.Load().file = os.Stderr // nothing is written to it here
	a.left.Set("volumes", func() string { return "up to 3 volumes" })
	require.Equal(t, ExitFailed, a.leave("why"))
	require.Contains(t, log.String(), "why; left: up to 3 volumes")
	require.Contains(t, stderr.String(), "left: up to 3 volumes")
}
