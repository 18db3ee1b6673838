package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
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
