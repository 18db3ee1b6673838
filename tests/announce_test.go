package tests

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cli"
	"github.com/tisnap/tisnap/pkg/notify"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// listener keeps what is sent to it, or refuses everything.
type listener struct {
	url string

	mu      sync.Mutex
	refuses bool
	events  []notify.Event
	pushed  []string // paths
}

func newListener(t *testing.T, refuses bool) *listener {
	t.Helper()
	l := &listener{refuses: refuses}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if l.refuses || err != nil {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/metrics/job/") {
		l.pushed = append(l.pushed, r.URL.Path)
		return
	}
	var e notify.Event
	if json.Unmarshal(body, &e) == nil {
		l.events = append(l.events, e)
	}
}

// The targets of --notify, --metrics-push and --metrics-file learn how each run ended, also one that failed before its
// first step, and a receiver that refuses changes no exit code.
func TestAnnounce_EachCommand(t *testing.T) { //nolint:tparallel // the parts follow each other
	t.Parallel()
	p := newPlace(t, testbed.Config{Nodes: 6})
	_, err := p.bed.CreateCluster(t.Context(), prod, 3)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "tisnap.prom")

	t.Run("a backup that is done", func(t *testing.T) {
		l := newListener(t, false)
		e := p.run(t, "backup", prod.String(), "--name", string(firstBackup), "--storage", whole,
			"--notify", l.url+"/hook", "--metrics-push", l.url, "--metrics-file", file)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		require.NotContains(t, e.stderr, "warning: send")
		require.Len(t, l.events, 1)
		got := l.events[0]
		assert.Equal(t, "io.tisnap.backup.done", got.Type)
		assert.Equal(t, "/clusters/tidb/prod", got.Source)
		assert.Positive(t, got.Data.HoldSeconds)
		assert.NotEmpty(t, got.Data.Phases)
		assert.Equal(t, 3, got.Data.TiKVs)
		require.Len(t, l.pushed, 1)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, string(text), `tisnap_run_success{cluster="tidb/prod",operation="backup"} 1`)
		assert.Contains(t, string(text), `tisnap_run_phase_duration_seconds{cluster="tidb/prod",operation="backup",phase="volume snapshots"}`)
	})
	t.Run("one that fails before its first step", func(t *testing.T) {
		l := newListener(t, false)
		e := p.run(t, "backup", "tidb/none", "--storage", whole, "--notify", l.url, "--metrics-file", file, "--progress", "json")
		require.Equal(t, cli.ExitCode(4), e.code, e.stderr)
		require.Len(t, l.events, 1)
		got := l.events[0].Data
		assert.Equal(t, "not-found", got.Kind)
		assert.Equal(t, 4, got.ExitCode)
		assert.Equal(t, "tidb/none", got.Cluster)
		assert.NotEmpty(t, got.Error)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, string(text), `tisnap_run_success{cluster="tidb/none",operation="backup"} 0`)
		assert.Contains(t, string(text), `tisnap_run_exit_code{cluster="tidb/none",operation="backup"} 4`)
	})
	t.Run("a receiver that refuses", func(t *testing.T) {
		l := newListener(t, true)
		e := p.run(t, "backup", "tidb/none", "--storage", whole,
			"--notify", l.url+"/secret-token", "--metrics-push", l.url+"/secret-token", "--metrics-file", "/no/such/folder/x.prom")
		require.Equal(t, cli.ExitCode(4), e.code, e.stderr)
		assert.Contains(t, e.stderr, "warning: send notification of receiver 127.0.0.1:")
		assert.Contains(t, e.stderr, "warning: push metrics of gateway 127.0.0.1:")
		assert.Contains(t, e.stderr, "warning: write metrics of /no/such/folder/x.prom")
		assert.NotContains(t, e.stderr, "secret-token")
		e = p.run(t, "gc", "--storage", whole, "--dry-run", "--metrics-push", l.url, "-o", "json")
		require.Equal(t, cli.ExitDone, e.code, "what cannot be sent does not matter for it")
		assert.Contains(t, e.stderr, `{"type":"warning","message":"push metrics of gateway`)
	})
	t.Run("a delete, and gc", func(t *testing.T) {
		l := newListener(t, false)
		e := p.run(t, "delete", string(firstBackup), "--last", "--storage", whole, "--yes", "--delete-rate", "100", "--notify", l.url)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		require.Len(t, l.events, 1)
		assert.Equal(t, "io.tisnap.delete.done", l.events[0].Type)
		assert.Equal(t, string(firstBackup), l.events[0].Subject)
		assert.Positive(t, l.events[0].Data.Deleted)
		e = p.run(t, "gc", "--storage", whole, "--dry-run", "--metrics-file", file)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		assert.Contains(t, string(text), `tisnap_gc_items{action="delete",kind="snapshot"} 0`)
		assert.Contains(t, string(text), "tisnap_gc_success 1\n")
		require.NoError(t, os.Remove(file))
		for _, of := range []string{"--cluster=false", "--cluster"} {
			e = p.run(t, "gc", "--storage", whole, "--dry-run", "-o", "json", of)
			require.Contains(t, e.stdout, `"items": []`, of)
		}
		e = p.run(t, "gc", "tidb/none", "--storage", whole, "--dry-run", "--metrics-file", file)
		require.Equal(t, cli.ExitDone, e.code, e.stderr)
		assert.Contains(t, e.stderr, "warning: no metrics sent: they cover everything that runs left, and this gc is limited")
		require.NoFileExists(t, file)
	})
	t.Run("wrong flags", func(t *testing.T) {
		for _, flag := range []string{"--notify=ftp://secret/x", "--metrics-push=secret", "--metrics-file=x.txt"} {
			t.Run(flag, func(t *testing.T) {
				e := p.refused(t, "backup", prod.String(), "--storage", whole, flag)
				require.Equal(t, cli.ExitCode(2), e.code)
				assert.Contains(t, e.line("error: "), strings.SplitN(flag, "=", 2)[0])
				assert.NotContains(t, e.line("error: "), "secret")
			})
		}
	})
}
