package arch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/arch"
)

const architecture = "docs/ARCHITECTURE.md"

// section is the text between the lines "<!-- NAME: begin -->" and "<!-- NAME: end -->", and what is around it.
func section(t *testing.T, text, name string) (before, inside, after string) {
	t.Helper()
	begin, end := "<!-- "+name+": begin -->\n", "<!-- "+name+": end -->"
	before, rest, found := strings.Cut(text, begin)
	require.True(t, found, begin)
	inside, after, found = strings.Cut(rest, end)
	require.True(t, found, end)
	return before + begin, inside, end + after
}

func TestDocs_Packages(t *testing.T) {
	t.Parallel()
	file := filepath.Join(root, architecture)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	before, got, after := section(t, string(text), "packages")
	want := arch.PackageTable(sources(t))
	require.Contains(t, want, "[phase](../pkg/phase)")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+want+after), 0o644))
		return
	}
	assert.Equal(t, want, got, "the table of packages in %s is stale: make docs writes it", architecture)
}

func TestDocs_PictureNamesEveryPart(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, architecture))
	require.NoError(t, err)
	_, picture, found := strings.Cut(string(text), "```mermaid\n")
	require.True(t, found)
	picture, _, _ = strings.Cut(picture, "```")
	exists := func(part string) bool {
		_, err := os.Stat(filepath.Join(root, "pkg", part))
		return err == nil
	}
	assert.Empty(t, arch.Missing(picture, exists), "the picture in %s leaves parts out", architecture)
	assert.Contains(t, arch.Missing("no part", exists), "phase")
}
