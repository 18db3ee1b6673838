package backup_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// The manifest lists which log backups there were, how far their logs were, and what was wrong.
func TestRun_LogBackupRuns_IsInTheManifest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for name, at := range map[string]uint64{"pitr": 4711, "idle": 4712} {
		r.c.PD.SetEtcd("/tidb/br-stream/info/"+name, "\x10"+string(binary.AppendUvarint(nil, at))) // start_ts
	}
	r.c.PD.SetEtcd("/tidb/br-stream/checkpoint/pitr/central_global", string(binary.BigEndian.AppendUint64(nil, 4720)))
	r.c.PD.SetEtcd("/tidb/br-stream/pause/idle", "")
	r.c.PD.SetEtcd("/tidb/br-stream/last-error/idle/1", "\x1a\x08no space") // error_message
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	m, err := catalog.Catalog{Store: r.deps.Store}.Load(t.Context(), o.Backup)
	require.NoError(t, err)
	require.Equal(t, []manifest.LogBackup{
		{Name: "idle", StartTS: 4712, Checkpoint: 4712, Paused: true, Error: "no space"},
		{Name: "pitr", StartTS: 4711, Checkpoint: 4720},
	}, m.LogBackups)
}
