package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever becomes of a notification, also after all of its tries: the exit code is that of the run.
func TestAnnounce_ReceiverThatFails_ExitCodeStays(t *testing.T) {
	t.Parallel()
	args := []string{"backup", "tidb/prod", "--storage", "file://" + t.TempDir(), "--kubeconfig", "/no/such/file"}
	want, _, _ := run(t, args...)
	require.NotZero(t, want)
	for name, c := range map[string]struct {
		answer int
		asked  int64
	}{
		"it refuses":            {http.StatusNotFound, 1},
		"it is away for a time": {http.StatusServiceUnavailable, 4},
		"it takes it":           {http.StatusNoContent, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.WriteHeader(c.answer)
			}))
			t.Cleanup(receiver.Close)
			code, _, stderr := run(t, append(args, "--notify", receiver.URL)...)
			require.Equal(t, want, code, stderr)
			require.Equal(t, c.asked, asked.Load())
			require.Equal(t, c.answer >= 300, strings.Contains(stderr, "warning: send notification"), stderr)
		})
	}
}
