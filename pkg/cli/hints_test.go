package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A hint that names a command which does not exist leaves its reader worse off than none.
func TestHints_NameOnlyCommandsThatExist(t *testing.T) {
	t.Parallel()
	root := (&app{}).root()
	// "tisnap archive 1" is a constant of the archive's format.
	quoted := regexp.MustCompile("[`\"]tisnap ([a-z]+)\\b(?: ([a-z]+)| ?[^ 0-9]|$)")
	found := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range quoted.FindAllStringSubmatch(string(text), -1) {
			found++
			cmd, _, err := root.Find([]string{m[1]})
			assert.NoError(t, err, "%s names `tisnap %s`", path, m[1])
			assert.NotEqual(t, root, cmd, "%s names `tisnap %s`", path, m[1])
			if m[2] != "" && cmd.HasSubCommands() {
				sub, _, err := root.Find(m[1:3])
				assert.NoError(t, err, "%s names `tisnap %s %s`", path, m[1], m[2])
				assert.NotEqual(t, cmd, sub, "%s names `tisnap %s %s`", path, m[1], m[2])
			}
		}
		return nil
	})
	require.NoError(t, err)
	assert.NotZero(t, found, "the sources hold hints")
}
