package kube

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

const tikvConfig = `
# dir = "/var/lib/commented"
log-level = "info" # [raft-engine]
labels = ["a", # ]
  "b]", { x = "y" }]
about = """
[raft-engine]
dir = "/var/lib/quoted"
"""

[storage]
  data-dir = "/data/tikv"
  reserve-space = "0MB"
[ "raft-engine" ]
  enable = true
  dir = '/var/lib/raft/engine' # where
[rocksdb]
  [rocksdb.titan]
    dirname = "/titan/x"
  [rocksdb.defaultcf]
    level0 = 4
[rocksdb]
wal-dir="/var/lib/wal"
`

func TestVolumeRole_MountPath_IsTheFolderBelowIt(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]cluster.Role{
		"/var/lib/tikv":      cluster.RoleData, // the Operator starts TiKV with --data-dir there
		"/var/lib/tikv/":     cluster.RoleData,
		"/data":              cluster.RoleData,
		"/var/lib/raft":      cluster.RoleRaftLog,
		"/var/lib/raft/":     cluster.RoleRaftLog,
		"/var/lib/ra":        "mount:/var/lib/ra",
		"/var/lib/wal":       cluster.RoleWAL,
		"/titan":             "rocksdb.titan.dirname",
		"/var/lib/quoted":    "mount:/var/lib/quoted",
		"/var/lib/commented": "mount:/var/lib/commented",
	} {
		role, err := VolumeRole(tikvConfig, path)
		require.NoError(t, err, path)
		assert.Equal(t, want, role, path)
	}
}

func TestVolumeRole_DottedKeysAndObject_AreRead(t *testing.T) {
	t.Parallel()
	for _, config := range []any{
		"raft-engine.dir = \"/raft\"\n",
		"[raft-engine]\r\ndir = \"/raft\"\r\n",
		"[raft-engine]\ndir=\"/ra\\u0066t/x\"",
		"raft-engine.dir = \"\"\"/raft\\\n   /x\"\"\"",
		map[string]any{"raft-engine": map[string]any{"dir": "/raft/x"}},
	} {
		role, err := VolumeRole(config, "/raft")
		require.NoError(t, err)
		assert.Equal(t, cluster.RoleRaftLog, role, config)
	}
	role, err := VolumeRole(nil, "/raft")
	require.NoError(t, err)
	assert.Equal(t, cluster.Role("mount:/raft"), role)
}

func TestVolumeRole_BrokenConfig_IsCorrupt(t *testing.T) {
	t.Parallel()
	for _, config := range []any{"a = \"never closed\nb = 1", "a = [1, 2\nb = 3\n", "a = \"\"\"x", 7} {
		_, err := VolumeRole(config, "/raft")
		assert.Equal(t, failure.Corrupt, failure.KindOf(err), config)
	}
}

func FuzzConfigStrings(f *testing.F) {
	f.Add(tikvConfig)
	f.Add("a = [\"")
	f.Add("[\n=\"\"\"")
	f.Fuzz(func(_ *testing.T, text string) {
		_, _ = configStrings(text) // must end and not panic
	})
}
