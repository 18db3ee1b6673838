package manifest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestLayout_Keys_AreFixed(t *testing.T) {
	t.Parallel()
	require.Equal(t, "backups/b/claim.json", manifest.ClaimKey("b"))
	require.Equal(t, "backups/b/manifest.json", manifest.ManifestKey("b"))
	require.Equal(t, "backups/b/seal.json", manifest.SealKey("b"))
	require.Equal(t, "reports/b/r.json", manifest.ReportKey("b", "r"))
	require.Equal(t, "backups/b/backupmeta", manifest.BackupMetaKey("b"))
	require.Equal(t, "runs/r/journal/000007.json", manifest.JournalKey("r", 7))
	require.Equal(t, "locks/ns.tc.json", manifest.LockKey(cluster.Name{Namespace: "ns", Name: "tc"}))
	require.Equal(t, []string{"backupmeta", "backup.lock", "clustermeta"}, manifest.BRMarkers())
}

func TestSplitBackupKey_OwnKeys_AreTakenApart(t *testing.T) {
	t.Parallel()
	id, file, ok := manifest.SplitBackupKey(manifest.SealKey("b.1"))
	require.True(t, ok)
	require.EqualValues(t, "b.1", id)
	require.Equal(t, manifest.SealFile, file)
	for _, key := range []string{"", "backups/", "backups/b", "backups/b/", "backups//x", "runs/r/x", "backups/ b/x"} {
		_, _, ok := manifest.SplitBackupKey(key)
		require.False(t, ok, key)
	}
}

func TestSplitJournalKey_OwnKeys_AreTakenApart(t *testing.T) {
	t.Parallel()
	run, seq, ok := manifest.SplitJournalKey(manifest.JournalKey("r", 12))
	require.True(t, ok)
	require.EqualValues(t, "r", run)
	require.Equal(t, 12, seq)
	for _, key := range []string{"", "runs/r/journal/1.json", "runs/r/journal/00000x.json", "runs/r/000001.json", "x"} {
		_, _, ok := manifest.SplitJournalKey(key)
		require.False(t, ok, key)
	}
}

func TestCheckID_UnsafeNames_AreUsage(t *testing.T) {
	t.Parallel()
	for _, id := range []cluster.BackupID{"", ".", "..", "a/b", "a b", "-a", "_a", "a\n", "ä"} {
		require.Equal(t, failure.Usage, failure.KindOf(manifest.CheckID(id)), id)
	}
	require.NoError(t, manifest.CheckID("prod-2026.11_21T08"))
}
