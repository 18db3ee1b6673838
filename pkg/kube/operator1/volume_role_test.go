package operator1

import (
	"maps"
	"testing"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2"
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
wal-dir="/var/lib/wal"
  [rocksdb.titan]
    dirname = "/titan/x"
  [rocksdb.defaultcf]
    level0 = 4
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
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			role, err := VolumeRole(tikvConfig, path)
			require.NoError(t, err)
			assert.Equal(t, want, role)
		})
	}
}

func TestVolumeRole_EveryWayToWriteAKey_IsRead(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]any{
		"dotted key":            "raft-engine.dir = \"/raft\"\n",
		"quoted dotted key":     "\"raft-engine\".'dir' = \"/raft\"",
		"windows line ends":     "[raft-engine]\r\ndir = \"/raft\"\r\n",
		"escaped character":     "[raft-engine]\ndir=\"/ra\\u0066t/x\"",
		"multi-line string":     "raft-engine.dir = \"\"\"/raft\\\n   /x\"\"\"",
		"literal multi-line":    "raft-engine.dir = '''\n/raft/x'''",
		"inline table":          "raft-engine = { enable = true, dir = \"/raft/x\" } # where",
		"nested inline table":   "x = { y = { dir = \"/no\" } }\nraft-engine = { dir = '/raft' }",
		"comment after a value": "[raft-engine] # dir = \"/no\"\ndir = \"/raft\" # \"/no\"",
		"object":                map[string]any{"raft-engine": map[string]any{"dir": "/raft/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			role, err := VolumeRole(config, "/raft")
			require.NoError(t, err)
			assert.Equal(t, cluster.RoleRaftLog, role)
		})
	}
}

func TestVolumeRole_NoConfig_NamesTheMount(t *testing.T) {
	t.Parallel()
	role, err := VolumeRole(nil, "/raft")
	require.NoError(t, err)
	assert.Equal(t, cluster.Role("mount:/raft"), role)
}

func TestVolumeRole_InvalidConfig_IsCorrupt(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]any{
		"open string":            "a = \"never closed\nb = 1",
		"open array":             "a = [1, 2\nb = 3\n",
		"open multi-line string": "a = \"\"\"x",
		"table defined twice":    "[raft-engine]\n[raft-engine]\ndir = \"/raft\"",
		"number":                 7,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := VolumeRole(config, "/raft")
			assert.Equal(t, failure.Corrupt, failure.KindOf(err))
		})
	}
}

// A comment in front changes nothing, and a value that a TOML writer wrote is read back.
func FuzzConfigValues(f *testing.F) {
	f.Add(tikvConfig)
	f.Add("a = [\"")
	f.Add("[\n=\"\"\"")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := configValues(text)
		commented, again := configValues("# [raft-engine]\n" + text)
		require.Equal(t, failure.KindOf(err), failure.KindOf(again))
		require.True(t, maps.Equal(values, commented))
		if !utf8.ValidString(text) {
			return // TOML has no such strings
		}
		written, err := toml.Marshal(map[string]any{"raft-engine": map[string]any{"dir": text}})
		require.NoError(t, err)
		values, err = configValues(string(written))
		require.NoError(t, err)
		require.Equal(t, text, values["raft-engine.dir"])
	})
}
