package cli

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tracing"
)

// Without a collector in the environment a run gets the context that it had: no span, so that no client is given a handler
// of its calls, and nothing that is to be sent at its end.
func TestTrace_NoCollector_IsTheContextItself(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"nothing is set":             {},
		"it is switched off":         {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"},
		"other variables than where": {"OTEL_SERVICE_NAME": "x", "OTEL_EXPORTER_OTLP_HEADERS": "a=b"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{"OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
				t.Setenv(name, env[name])
			}
			for name, value := range env {
				t.Setenv(name, value)
			}
			cmd := &cobra.Command{Use: "backup"}
			cmd.SetContext(t.Context())
			ctx, end, err := new(app).trace(cmd, nil)
			require.NoError(t, err)
			require.Equal(t, t.Context(), ctx)
			require.False(t, tracing.On(ctx))
			end(nil)
		})
	}
}
