package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A hint that names a command which does not exist leaves its reader worse off than none.
func TestHints_NameOnlyCommandsThatExist(t *testing.T) {
	t.Parallel()
	root := (&app{}).root()
	quoted := regexp.MustCompile("[`\"]tisnap ([a-z]+)")
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
		}
		return nil
	})
	require.NoError(t, err)
	assert.NotZero(t, found, "the sources hold hints")
}

// The README's table of exit codes is the program's.
func TestReadme_ExitCodes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	row := regexp.MustCompile(`(?m)^\| (\d+) \| ([^|]+) \|$`)
	got := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		got[m[1]] = m[2]
	}
	want := map[string]string{"0": "done as asked", "130": "interrupted by Ctrl-C; what was held is let go", "143": "interrupted by SIGTERM; what was held is let go"}
	for _, c := range exitCodes {
		want[strconv.Itoa(int(c.code))] = c.meaning
	}
	assert.Equal(t, want, got)
}

// Every command is in the README, and the flags that the README names exist.
func TestReadme_NamesEveryCommand(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, cmd := range (&app{}).root().Commands() {
		assert.Contains(t, string(text), "`tisnap "+cmd.Name(), "README.md says what it is for")
	}
	flag := regexp.MustCompile("`--([a-z-]+)")
	for _, m := range flag.FindAllStringSubmatch(string(text), -1) {
		assert.True(t, hasFlag(m[1]), "README.md names --%s", m[1])
	}
}

func hasFlag(name string) bool {
	root := (&app{}).root()
	if root.PersistentFlags().Lookup(name) != nil {
		return true
	}
	for _, cmd := range root.Commands() {
		if cmd.Flags().Lookup(name) != nil {
			return true
		}
	}
	return false
}
