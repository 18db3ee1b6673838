package brcompat_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/brcompat"
)

var update = flag.Bool("update", false, "write the golden files and the table in docs/br.md again")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ended is a run of br that has ended.
type ended struct {
	code           brcompat.ExitCode
	stdout, stderr string
}

func run(t *testing.T, args ...string) ended {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := brcompat.Run(t.Context(), args, brcompat.Streams{Out: &stdout, Err: &stderr}, brcompat.Version{Version: "v1.2.3", Commit: "0f1e2d"})
	return ended{code, stdout.String(), stderr.String()}
}

// golden compares with a file below testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "-update writes it again")
}

func TestHelp_IsAsInTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for file, args := range map[string][]string{
		"help.txt":          {"--help"},
		"help-backup.txt":   {"backup", "full", "--help"},
		"help-restore.txt":  {"restore", "full", "--help"},
		"help-operator.txt": {"operator", "pause-gc-and-schedulers", "--help"},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			got := run(t, args...)
			require.Equal(t, brcompat.ExitDone, got.code)
			require.Empty(t, got.stderr)
			golden(t, file, got.stdout)
		})
	}
}

func TestVersion_NamesTisnapAndBR(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--version", "-V"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			got := run(t, flag)
			require.Equal(t, brcompat.ExitDone, got.code)
			golden(t, "version.txt", regexp.MustCompile(`go1\.[0-9.]+`).ReplaceAllString(got.stdout, "go1.N"))
		})
	}
}

// A command that this br does not have is refused in one line, whatever its flags are.
func TestOtherCommands_AreRefusedInOneLine(t *testing.T) {
	t.Parallel()
	refused := brcompat.RefusedCommands()
	require.Contains(t, refused, "log")
	require.Contains(t, refused, "backup db")
	for _, command := range refused {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(command)
			for _, rest := range [][]string{nil, {"--db=x", "-t", "y"}, {"start", "--task-name", "pitr"}} {
				got := run(t, append(args[:len(args):len(args)], rest...)...)
				require.Equal(t, brcompat.ExitFailed, got.code)
				require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
				require.Contains(t, got.stderr, `"br `+command+`" is not supported`)
				require.Empty(t, got.stdout)
			}
		})
	}
	got := run(t, "backup", "everything")
	require.Equal(t, brcompat.ExitFailed, got.code)
	require.Contains(t, got.stderr, "unknown command")
}
