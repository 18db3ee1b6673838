package cli

import (
	"bytes"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/ui"
)

// A logged warning is shown as the run's own are, not as a line of a log file, unless --log-format asks for that.
func TestSession_LogsAreShownAsProgress(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		mode         ui.Mode
		format, want string
	}{
		"terminal":  {ui.TTY, "text", "the report is not stored (run r1): no answer"},
		"plain":     {ui.Plain, "text", "Z warning: the report is not stored (run r1): no answer\n"},
		"none":      {ui.None, "text", "warning: the report is not stored (run r1): no answer\n"},
		"JSON logs": {ui.Plain, "json", `"msg":"the report is not stored","run":"r1","error":"no answer"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			a := &app{streams: Streams{Err: &out}}
			a.global.progress, a.global.logLevel, a.global.logFormat = row.mode, "warn", row.format
			s, err := a.session()
			require.NoError(t, err)
			s.log.Info("not shown")
			s.log.With(zap.String("run", "r1")).Warn("the report is not stored", zap.Error(errors.New("no answer")))
			s.end()
			require.NotContains(t, out.String(), "not shown")
			require.Contains(t, out.String(), row.want)
		})
	}
}
