package manifest_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/manifest"
)

var update = flag.Bool("update", false, "write the golden files again")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// golden compares got with a file; JSON Numbers and order included, since br and people read the bytes.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return b
}

var created = time.Date(2026, 11, 21, 8, 10, 0, 0, time.UTC)

// sample is a valid manifest of three stores with a data volume and a raft log volume each.
func sample() *manifest.Manifest {
	m := &manifest.Manifest{
		APIVersion: manifest.APIVersion, Kind: manifest.Kind, ID: "prod-1-20261121T081000Z",
		Run: "run-1", Tool: "v0.1.0", FullBackupType: manifest.FullBackupType, Region: "us-west-2",
		BackupTS: cluster.MakeTS(created.Add(2*time.Second), 1), MaxTS: cluster.MakeTS(created.Add(4*time.Second), 9),
		AllocID: 2000, CreatedAt: created, CutStartedAt: created.Add(2 * time.Second),
		CutEndedAt: created.Add(3 * time.Second),
		Source: cluster.Topology{
			Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, ClusterID: 7123456789012345678,
			Version: "8.5.0", PD: []string{"http://prod-pd.tidb:2379"}, PDReplicas: 3, TiDBReplicas: 2,
		},
		Kubernetes: manifest.Kubernetes{
			TidbCluster: json.RawMessage(`{"metadata":{"name":"prod","namespace":"tidb"},"spec":{"a<b":true}}`),
		},
	}
	for i := range 3 {
		store := cluster.Store{
			ID: cluster.StoreID(i + 4), Address: fmt.Sprintf("prod-tikv-%d:20160", i),
			Pod: fmt.Sprintf("prod-tikv-%d", i), Ordinal: i, Node: "node-a", Instance: "i-1",
		}
		for _, role := range []cluster.Role{cluster.RoleData, cluster.RoleRaftLog} {
			v := cluster.Volume{
				ID: cluster.VolumeID(fmt.Sprintf("vol-%d%c", i, role[0])), Role: role, MountPath: "/var/lib/" + string(role),
				PVC: fmt.Sprintf("%s-prod-tikv-%d", role, i), PV: fmt.Sprintf("pv-%d", i), Zone: "us-west-2a",
				VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 100, IOPS: 4000, ThroughputMiB: 400},
			}
			store.Volumes = append(store.Volumes, v)
			id := cluster.SnapshotID(fmt.Sprintf("snap-%d%c", i, role[0]))
			m.Snapshots = append(m.Snapshots, manifest.NewSnapshot(id, store.ID, v, created.Add(2*time.Second)))
		}
		m.Source.Stores = append(m.Source.Stores, store)
	}
	return m
}

func encoded(t testing.TB, m *manifest.Manifest) []byte {
	t.Helper()
	doc, err := manifest.Encode(m)
	require.NoError(t, err)
	return doc
}
