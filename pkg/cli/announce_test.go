package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/exporter/exportertest"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/outbound"
)

// Whatever becomes of a notification, also after all of its tries: the exit code is that of the run, and the URL, which
// may have a token in it, is not shown.
func TestAnnounce_ReceiverThatFails_ExitCodeStays(t *testing.T) {
	t.Parallel()
	storage := "file://" + t.TempDir()
	args := []string{"backup", "tidb/prod", "--storage", storage, "--kubeconfig", "/no/such/file"}
	want, _ := quickly(t, 0, args...)
	require.NotZero(t, want)
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter, *http.Request)
		asked  int64
		warned bool
	}{
		"it refuses":            {answered(http.StatusNotFound), 1, true},
		"it is away for a time": {answered(http.StatusServiceUnavailable), 4, true},
		"it fails each time":    {answered(http.StatusInternalServerError), 4, true},
		"it hangs":              {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, -1, true},
		"no listener":           {nil, 0, true},
		"it takes it":           {answered(http.StatusNoContent), 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that the client leaves
				c.answer(w, r)
			}))
			t.Cleanup(receiver.Close)
			if c.answer == nil {
				receiver.Close()
			}
			patience := 20 * time.Second
			if c.asked < 0 {
				patience = 500 * time.Millisecond
			}
			code, stderr := quickly(t, patience, append(args, "--notify", receiver.URL+"/secret-token")...)
			require.Equal(t, want, code, stderr)
			if c.asked >= 0 {
				require.Equal(t, c.asked, asked.Load())
			} else {
				require.Positive(t, asked.Load())
			}
			require.Equal(t, c.warned, strings.Contains(stderr, "warning: send notification of receiver 127.0.0.1:"), stderr)
			require.NotContains(t, stderr, "secret-token")
		})
	}
}

func answered(status int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// quickly runs a command that waits so long for each answer of who is notified, and hardly between two tries.
func quickly(t *testing.T, patience time.Duration, args ...string) (ExitCode, string) {
	t.Helper()
	var stderr bytes.Buffer
	streams := Streams{Out: new(bytes.Buffer), Err: &stderr, limits: outbound.Limits{Total: time.Minute, Answer: patience, Wait: time.Millisecond}}
	code := Run(t.Context(), args, streams, Version{Version: "v1.2.3", Commit: "abc"})
	return code, stderr.String()
}

// A restore of the latest backup that fails before it has a report is announced by the name that was chosen.
func TestAnnounce_RestoreOfTheLatest_NamesTheChosenBackup(t *testing.T) {
	t.Parallel()
	storage := "file://" + t.TempDir()
	store, err := objstore.Open(t.Context(), storage, objstore.Config{})
	require.NoError(t, err)
	fill := exportertest.New(t.Context(), store)
	fill.Sealed("b1", cluster.Name{Namespace: "tidb", Name: "prod"}, "r1", time.Now().Add(-2*time.Hour))
	fill.Sealed("b2", cluster.Name{Namespace: "tidb", Name: "prod"}, "r2", time.Now().Add(-time.Hour))
	require.NoError(t, fill.Err())
	subjects := make(chan string, 4)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var event struct{ Subject string }
		_ = json.NewDecoder(r.Body).Decode(&event)
		subjects <- event.Subject
	}))
	t.Cleanup(receiver.Close)
	code, stderr := quickly(t, 20*time.Second,
		"restore", "latest", "--to", "tidb/copy", "--storage", storage, "--kubeconfig", "/no/such/file", "--notify", receiver.URL)
	require.NotZero(t, code)
	require.Contains(t, stderr, "latest is backup b2")
	require.Equal(t, "b2", <-subjects)
}
