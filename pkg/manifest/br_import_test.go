package manifest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestFromBackupMeta_Recorded_CanBeRestored(t *testing.T) {
	t.Parallel()
	m, err := manifest.FromBackupMeta("by-br", readFile(t, "backupmeta.recorded.json"))
	require.NoError(t, err)
	require.Equal(t, cluster.Name{Namespace: "tidb", Name: "src"}, m.Source.Cluster)
	require.EqualValues(t, 7123456789, m.Source.ClusterID)
	require.Equal(t, sample().BackupTS, m.BackupTS)
	require.Zero(t, m.MaxTS)
	require.Len(t, m.Snapshots, 3)
	first := m.Source.Stores[0]
	require.Equal(t, "src-tikv-0", first.Pod)
	require.Equal(t, 0, first.Ordinal)
	require.Equal(t, cluster.Volume{
		ID: "vol-9c5ee71d6f3913d86", Role: cluster.RoleData, MountPath: "/var/lib/tikv", PVC: "tikv-src-tikv-0",
		PV: "pvc-dc27b5ee-01d3-4297-b569-ec54bd77aaf8", Zone: "us-west-2a", VolumeSpec: cluster.VolumeSpec{SizeGiB: 10},
	}, first.Volumes[0])

	again, err := manifest.Decode(encoded(t, m))
	require.NoError(t, err)
	meta, err := manifest.BackupMeta(again)
	require.NoError(t, err)
	require.Equal(t, string(readFile(t, "backupmeta.recorded.json")), string(meta), "br's document is kept")
}

func TestFromBackupMeta_Unusable_IsCorrupt(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	doc := string(readFile(t, "backupmeta.recorded.json"))
	for name, broken := range map[string]string{
		"not json":          "{",
		"clustermeta":       string(readFile(t, "clustermeta.json")),
		"no cluster object": replaceObject(t, doc, "crd_tidb_cluster", `null`),
		"odd cluster":       replaceObject(t, doc, "crd_tidb_cluster", `[]`),
		"no cluster id":     replaceObject(t, doc, "crd_tidb_cluster", `{"metadata":{"name":"a","namespace":"b"}}`),
		"odd pv":            replaceObject(t, doc, "pvs", `[3]`),
		"no pvs, no sizes":  replaceObject(t, doc, "pvs", `[]`),
		"odd size":          strings.ReplaceAll(doc, `"10Gi"`, `"ten"`),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := manifest.FromBackupMeta("by-br", []byte(broken))
			require.Equal(t, failure.Corrupt, failure.KindOf(err), "%s: %v", name, err)
		})
	}
}

func TestFromBackupMeta_Quantities_AreRoundedUp(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	doc := string(readFile(t, "backupmeta.recorded.json"))
	for quantity, want := range map[string]int64{
		"10Gi": 10, "1Ti": 1024, "1.5Gi": 2, "1025Mi": 2, "10G": 10, "1000G": 932, "10737418240": 10, "10737418241": 11, "1k": 1,
	} {
		t.Run(quantity, func(t *testing.T) {
			m, err := manifest.FromBackupMeta("by-br", []byte(strings.ReplaceAll(doc, `"10Gi"`, `"`+quantity+`"`)))
			require.NoError(t, err, quantity)
			require.Equal(t, want, m.Snapshots[0].SizeGiB, quantity)
		})
	}
}

// replaceObject puts another value in a member of "kubernetes".
func replaceObject(t *testing.T, doc, member, value string) string {
	t.Helper()
	var all map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(doc), &all))
	var kubernetes map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(all["kubernetes"], &kubernetes))
	kubernetes[member] = json.RawMessage(value)
	var err error
	all["kubernetes"], err = json.Marshal(kubernetes)
	require.NoError(t, err)
	changed, err := json.Marshal(all)
	require.NoError(t, err)
	return string(changed)
}
