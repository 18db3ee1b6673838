package backup_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// The manifest lists which log backups there were, and whether they cover the backup ts.
func TestRun_LogBackupRuns_IsInTheManifest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const startTS = "\x10" // field 2 of StreamBackupTaskInfo, a varint
	r.c.PD.SetEtcd("/tidb/br-stream/info/pitr", startTS+string(binary.AppendUvarint(nil, 4711)))
	r.c.PD.SetEtcd("/tidb/br-stream/info/idle", startTS+string(binary.AppendUvarint(nil, 4712)))
	r.c.PD.SetEtcd("/tidb/br-stream/pause/idle", "")
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	m, err := catalog.Catalog{Store: r.deps.Store}.Load(t.Context(), o.Backup)
	require.NoError(t, err)
	require.Equal(t, []manifest.LogBackup{{Name: "idle", StartTS: 4712, Paused: true}, {Name: "pitr", StartTS: 4711}},
		m.LogBackups)
}
