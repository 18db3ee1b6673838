package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// opener puts a program in the place of the system's own that opens files, and returns the file with what it was given.
func opener(t *testing.T, exit string) (given string) {
	t.Helper()
	folder := t.TempDir()
	given = filepath.Join(folder, "given")
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" >> " + given + "\nexit " + exit + "\n"
	for _, program := range []string{"xdg-open", "open"} { // Linux, macOS
		require.NoError(t, os.WriteFile(filepath.Join(folder, program), []byte(script), 0o700))
	}
	t.Setenv("PATH", folder)
	t.Setenv("TMPDIR", t.TempDir())
	return given
}

func TestReport_Open_ShowsAWholePageInTheBrowser(t *testing.T) {
	url := reported(t)
	for name, args := range map[string][]string{"a backup": {"report", "nightly-6"}, "the trend": {"report", "--since", "30d"}} {
		t.Run(name, func(t *testing.T) {
			given := opener(t, "0")
			code, out, stderr := run(t, append(args, "--open", "--storage", url)...)
			require.Zero(t, code, stderr)
			require.Empty(t, out)
			opened, err := os.ReadFile(given)
			require.NoError(t, err)
			file := strings.TrimPrefix(strings.TrimSpace(string(opened)), "file://")
			require.Contains(t, stderr, "the report is in "+file)
			body, err := os.ReadFile(file)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(body), "<!doctype html>") && strings.HasSuffix(strings.TrimSpace(string(body)), "</html>"))
			info, err := os.Stat(file)
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o077, "others may not read it")
		})
	}
}

// Without a browser the report is there all the same, and the hint names the file.
func TestReport_OpenWithoutABrowser_NamesTheFile(t *testing.T) {
	url := reported(t)
	for name, path := range map[string]string{"none": "", "one that fails": "3"} {
		t.Run(name, func(t *testing.T) {
			opener(t, path)
			if path == "" {
				t.Setenv("PATH", t.TempDir())
			}
			file := filepath.Join(t.TempDir(), "r.html")
			code, _, stderr := run(t, "report", "nightly-6", "--open", "--out", file, "--storage", url)
			require.Equal(t, exitCodeOf(failure.Unready), code, stderr)
			require.Contains(t, stderr, "hint: open the file yourself: "+file)
			require.FileExists(t, file)
		})
	}
}
