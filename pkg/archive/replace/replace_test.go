package replace_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/archive/archivetest"
	"github.com/tisnap/tisnap/pkg/archive/format"
	"github.com/tisnap/tisnap/pkg/archive/replace"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
)

// An archive that was replaced, and that others replaced before it was again, does not count as replaced: what it
// refers to now is theirs.
func TestCommit_OthersReplaceItLater_IsLeft(t *testing.T) {
	t.Parallel()
	r, _, err := archivetest.New(t.Context(), objstoretest.NewMemory(nil), format.MaxSealed)
	require.NoError(t, err)
	for _, id := range []string{"a", "b"} {
		require.NoError(t, r.Commit(t.Context(), id, &format.Archive{Backup: id, Manifest: format.NewManifest(nil)}))
	}
	read := func(_ string, _ *format.Archive, err error) error { return err }
	all := func(string, *format.Archive) bool { return true }
	require.NoError(t, replace.Run(t.Context(), r, "test", read, func(ctx context.Context, archives *replace.Archives) error {
		require.NoError(t, archives.Commit(ctx, all))
		require.Equal(t, map[string]bool{"a": true, "b": true}, archives.Replaced)
		a, version, err := r.ArchiveVersion(ctx, "a")
		require.NoError(t, err)
		_, err = r.Recommit(ctx, "a", a, version)
		require.NoError(t, err)
		require.NoError(t, archives.Commit(ctx, all))
		require.Equal(t, map[string]bool{"b": true}, archives.Replaced)
		require.Equal(t, 1, archives.Left)
		return nil
	}))
}
