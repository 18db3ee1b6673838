package brcompat

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// recorded is a clustermeta that a real Operator wrote.
const recorded = "../manifest/testdata/clustermeta.json"

func TestReadVolumeFile_OfARealOperator(t *testing.T) {
	t.Parallel()
	f, err := readVolumeFile(recorded, cluster.Name{Namespace: "pd", Name: "x"})
	require.NoError(t, err)
	require.Equal(t, cluster.Name{Namespace: "tidb", Name: "src"}, f.name)
	require.Empty(t, f.dropped)
	require.Empty(t, f.elsewhere)
	doc, err := f.Encode()
	require.NoError(t, err)
	was, err := os.ReadFile(recorded)
	require.NoError(t, err)
	require.JSONEq(t, string(was), string(doc), "nothing of it is lost")
}

func TestDescribed_PodsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	f, err := readVolumeFile(recorded, cluster.Name{})
	require.NoError(t, err)
	d := &described{file: f}
	tc, err := d.Cluster(t.Context(), f.name)
	require.NoError(t, err)
	require.Equal(t, map[cluster.StoreID]string{4: "src-tikv-0", 5: "src-tikv-1", 6: "src-tikv-2"}, tc.Stores)
	require.Equal(t, 3, tc.TiKVReplicas)
	pods, err := d.pods()
	require.NoError(t, err)
	require.Equal(t, 1, pods[5].Ordinal)
	mount := pods[5].Mounts[0]
	require.Equal(t, "tikv-src-tikv-1", mount.PVC)
	require.Equal(t, cluster.VolumeID("vol-5c08cff595af61aa8"), mount.Volume)
	require.Equal(t, cluster.RoleData, mount.Role)
	require.NotEmpty(t, mount.Claim)
	require.NotEmpty(t, mount.Object)
}

// The Operator gives a type only to a volume whose mount path is a value of a key that is in no table.
func TestReadVolumeFile_VolumeWithoutAType_GetsThatOfItsFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "csb_backup.json")
	doc := `{"tikv":{"replicas":1,"stores":[{"store_id":1,"volumes":[{"volume_id":"d","type":"storage.data-dir","mount_path":"/var/lib/tikv"},` +
		`{"volume_id":"r","type":"","mount_path":"/raft"},{"volume_id":"o","type":"","mount_path":"/other"}]}]},` +
		`"kubernetes":{"crd_tidb_cluster":{"spec":{"tikv":{"config":"[raft-engine]\ndir = \"/raft/engine\"\n"}}}}}`
	require.NoError(t, os.WriteFile(path, []byte(doc), 0o600))
	f, err := readVolumeFile(path, cluster.Name{Namespace: "tidb", Name: "prod"})
	require.NoError(t, err)
	pods, err := (&described{file: f}).pods()
	require.NoError(t, err)
	var roles []cluster.Role
	for _, m := range pods[1].Mounts {
		roles = append(roles, m.Role)
	}
	require.Equal(t, []cluster.Role{cluster.RoleData, cluster.RoleRaftLog, "mount:/other"}, roles)
}

func TestReadVolumeFile_DamagedObjects_AreRefused(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string]string{
		"a volume twice":     `{"tikv":{"replicas":2,"stores":[{"store_id":1,"volumes":[{"volume_id":"v"}]},{"store_id":2,"volumes":[{"volume_id":"v"}]}]}}`,
		"no stores":          `{"tikv":{"replicas":0,"stores":[]}}`,
		"9 where 1 is named": `{"tikv":{"replicas":9,"stores":[{"store_id":1,"volumes":[{"volume_id":"v"}]}]}}`,
		"no volumes":         `{"tikv":{"replicas":1,"stores":[{"store_id":1,"volumes":[]}]}}`,
		"no volume of it":    `{"tikv":{"replicas":1,"stores":[{"store_id":1,"volumes":[{"volume_id":"v"}]}]},"kubernetes":{"pvs":[{"metadata":{"name":"p"}}],"pvcs":[]}}`,
		"a cluster of words": `{"tikv":{"replicas":1,"stores":[{"store_id":1,"volumes":[{"volume_id":"v"}]}]},"kubernetes":{"crd_tidb_cluster":"prod"}}`,
		"a peer of words":    `{"tikv":{"replicas":1,"stores":[{"store_id":1,"volumes":[{"volume_id":"v"}]}]},"kubernetes":{"crd_tidb_cluster":{"status":{"tikv":{"peerStores":{"x":{}}}}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "csb_backup.json")
			require.NoError(t, os.WriteFile(path, []byte(doc), 0o600))
			_, err := readVolumeFile(path, cluster.Name{})
			require.ErrorContains(t, err, path)
		})
	}
}
