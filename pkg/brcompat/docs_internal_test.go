package brcompat

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/tests/docs"
)

// Every command line of br in the documents exists here, with its flags.
func TestDocs_CommandLinesExist(t *testing.T) {
	t.Parallel()
	pages, err := docs.Pages("../..")
	require.NoError(t, err)
	found := 0
	for name, text := range pages {
		for _, line := range docs.CommandLines(text, "br") {
			found++
			assert.Empty(t, docs.Unknown((&app{}).root(), line), "%s: %q", name, line)
		}
	}
	assert.Greater(t, found, 5, "the documents name command lines of br")
}
