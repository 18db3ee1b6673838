package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A person finds a target among thirty.
func TestMakefile_Help_HasThirtyTargetsAtMost(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	listed := regexp.MustCompile(`(?m)^[a-z0-9-]+:[^#\n]* ## `).FindAll(makefile, -1)
	require.NotEmpty(t, listed)
	require.LessOrEqual(t, len(listed), 30, "%s", listed)
}

// What is tested without the race detector starts no goroutine. One of a test for root only makes load on a mounted file
// system, not in the package.
func TestMakefile_Serial_StartsNoGoroutine(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	serial := regexp.MustCompile(`(?m)^SERIAL +:= (.+)$`).FindSubmatch(makefile)
	require.NotNil(t, serial)
	starts := regexp.MustCompile(`\bgo (func|[a-zA-Z.]+\()|\.Go\(|\bparallel\.|AfterFunc\(`)
	for _, folder := range strings.Fields(string(serial[1])) {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files, folder)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			if filepath.Base(file) != "mounted_test.go" {
				require.Empty(t, starts.FindAllString(string(text), -1), file)
			}
		}
	}
}
