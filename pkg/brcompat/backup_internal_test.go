package brcompat

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// logging is an app whose log is in out, as text.
func logging(t *testing.T, out *bytes.Buffer) *app {
	t.Helper()
	made, err := newLogger(&Common{LogLevel: "info", LogFormat: "text"}, zapcore.AddSync(out))
	require.NoError(t, err)
	return &app{log: &logger{Logger: made, echo: made, ends: made}}
}

// The Operator joins the [ERROR] lines of stdout and stderr: the text of a failed Job is in its condition once.
func TestEnd_ErrorIsInTheConditionOnce(t *testing.T) {
	t.Parallel()
	var out, stderr bytes.Buffer
	a := logging(t, &out)
	a.streams.Err = &stderr
	a.end(failure.New(failure.Denied, "create volume", "snap-1", "no").WithHint("allow it"))
	require.Contains(t, out.String(), `["br failed"] [error="create volume of snap-1: no (allow it)"]`)
	require.Empty(t, stderr.String())

	a = &app{streams: Streams{Err: &stderr}}
	a.end(failure.New(failure.Usage, "", "", "there is no log yet"))
	require.Equal(t, "Error: there is no log yet\n", stderr.String())
}

// Catalogue: C17.
func TestBackupIsNotSealed_IsNoSuccess(t *testing.T) {
	t.Parallel()
	partial := failure.New(failure.Partial, "", "", "a safe point stays")
	for name, c := range map[string]struct {
		sealed bool
		err    error
		done   bool
	}{
		"sealed":                       {true, nil, true},
		"sealed, something is left":    {true, partial, true},
		"sealed, and held":             {true, failure.New(failure.Held, "", "", "no"), false},
		"failed":                       {false, errors.New("no"), false},
		"not sealed, and partial":      {false, partial, false},
		"not sealed, without an error": {false, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			file := filepath.Join(t.TempDir(), "progress.txt")
			p := newProgress(t.Context(), file, zap.NewNop(), nil)
			err := logging(t, &out).concludeBackup(p, "br-1", &backup.Result{Sealed: c.sealed, Manifest: &manifest.Manifest{BackupTS: 7}}, c.err)
			require.Equal(t, c.done, err == nil, "%v", err)
			require.Equal(t, c.done, strings.Contains(out.String(), "EBS backup success"))
			progress, readErr := os.ReadFile(file)
			require.NoError(t, readErr)
			require.Equal(t, c.done, string(progress) == "100.00")
		})
	}
}
