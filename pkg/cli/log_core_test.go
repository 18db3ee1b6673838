package cli

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/ui"
)

// A terminal shows a logged warning as it shows the run's own, not as a line of a log file.
func TestSession_OnATerminal_LogsAreShownAsProgress(t *testing.T) {
	t.Parallel()
	for mode, zapped := range map[ui.Mode]bool{ui.TTY: false, ui.Plain: true} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			a := &app{streams: Streams{Err: &out}}
			a.global.progress, a.global.logLevel, a.global.logFormat = mode, "warn", "text"
			s, err := a.session()
			require.NoError(t, err)
			s.log.Info("not shown")
			s.log.With(zap.String("run", "r1")).Warn("the report is not stored", zap.Error(errors.New("no answer")))
			s.end()
			require.NotContains(t, out.String(), "not shown")
			require.Contains(t, out.String(), "the report is not stored")
			if zapped {
				require.Contains(t, out.String(), `{"run": "r1", "error": "no answer"}`)
				return
			}
			require.Contains(t, out.String(), "the report is not stored (run r1): no answer")
		})
	}
}
