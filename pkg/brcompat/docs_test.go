package brcompat_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/brcompat"
)

// The table of flags in docs/br.md is made from the flags.
func TestDocs_FlagsAreThoseOfTheCommands(t *testing.T) {
	t.Parallel()
	const path, begin, end = "../../docs/br.md", "<!-- flags: begin -->\n", "<!-- flags: end -->"
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(text), begin)
	require.True(t, ok)
	table, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(before+begin+brcompat.FlagTable()+end+after), 0o644))
		return
	}
	require.Equal(t, brcompat.FlagTable(), table, "make docs writes it")
}
