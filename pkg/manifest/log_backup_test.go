package manifest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestLogBackupCovers_OnlyWhatRunsSinceBefore(t *testing.T) {
	t.Parallel()
	require.True(t, manifest.LogBackup{StartTS: 9}.Covers(10))
	require.True(t, manifest.LogBackup{StartTS: 10}.Covers(10))
	require.False(t, manifest.LogBackup{StartTS: 11}.Covers(10))
	require.False(t, manifest.LogBackup{StartTS: 9, Paused: true}.Covers(10))
	require.False(t, manifest.LogBackup{}.Covers(10), "its start is unknown")
}
