package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/gc"
)

func TestDeletions_NameTheArchivesOfWhatIsDeleted(t *testing.T) {
	t.Parallel()
	d := newDeletionsDoc(false, &gc.BackupsReport{Backups: []gc.BackupOutcome{
		{ID: "gone", Action: gc.ActionDeleted}, {ID: "pinned", Action: gc.ActionInUse},
	}}, keptArchive{"gone", "one\x1b[2J", "r"}, keptArchive{"pinned", "two", "r"})
	assert.Len(t, d.Archives, 1)
	var out bytes.Buffer
	require.NoError(t, d.table(&out, view{}))
	assert.Contains(t, out.String(), "\nbackup gone was archived as one")
	assert.NotContains(t, out.String(), "\x1b")
	assert.NotContains(t, out.String(), "two")
}
