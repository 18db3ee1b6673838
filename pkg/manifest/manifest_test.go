package manifest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

func TestEncode_Sample_IsStable(t *testing.T) {
	t.Parallel()
	golden(t, "manifest.v1.json", encoded(t, sample()))
}

func TestDecode_Encoded_GivesTheSame(t *testing.T) {
	t.Parallel()
	want := sample()
	got, err := manifest.Decode(encoded(t, want))
	require.NoError(t, err)
	require.JSONEq(t, string(want.Kubernetes.TidbCluster), string(got.Kubernetes.TidbCluster))
	got.Kubernetes, want.Kubernetes = manifest.Kubernetes{}, manifest.Kubernetes{}
	require.Equal(t, want, got)
}

func TestEncode_EmptySchema_IsFilledIn(t *testing.T) {
	t.Parallel()
	m := sample()
	m.APIVersion, m.Kind, m.FullBackupType = "", "", ""
	require.Equal(t, string(encoded(t, sample())), string(encoded(t, m)))
	require.Empty(t, m.Kind, "the argument is not changed")
}

func TestDecode_UnknownField_IsIgnored(t *testing.T) {
	t.Parallel()
	doc := bytes.Replace(encoded(t, sample()), []byte(`"tool"`), []byte(`"addedLater": {"x": 1}, "tool"`), 1)
	_, err := manifest.Decode(doc)
	require.NoError(t, err)
}

func TestDecode_OtherSchema_IsNamed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		doc  string
		kind failure.Kind
		text string
	}{
		"newer":      {`{"apiVersion":"tisnap.io/v2","kind":"Manifest"}`, failure.Usage, "made by a newer tisnap"},
		"other tool": {`{"apiVersion":"velero.io/v1","kind":"Backup"}`, failure.Corrupt, "velero.io/v1"},
		"no schema":  {`{}`, failure.Corrupt, "want a document"},
		"a seal":     {`{"apiVersion":"tisnap.io/v1","kind":"Seal"}`, failure.Corrupt, `kind "Seal"`},
		"truncated":  {`{"apiVersion":"tisnap.io/v1","ki`, failure.Corrupt, "unexpected end"},
		"empty":      {``, failure.Corrupt, "unexpected end"},
		"wrong type": {`{"apiVersion":"tisnap.io/v1","kind":"Manifest","snapshots":3}`, failure.Corrupt, "snapshots"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := manifest.Decode([]byte(test.doc))
			require.ErrorContains(t, err, test.text)
			require.Equal(t, test.kind, failure.KindOf(err))
		})
	}
}

func TestValidate_Contradiction_IsCorruptAndNamed(t *testing.T) {
	t.Parallel()
	for text, change := range map[string]func(m *manifest.Manifest){
		"no stores":                   func(m *manifest.Manifest) { m.Source.Stores = nil },
		"no snapshots":                func(m *manifest.Manifest) { m.Snapshots = nil },
		"backup ts is 0":              func(m *manifest.Manifest) { m.BackupTS = 0 },
		"is below the backup ts":      func(m *manifest.Manifest) { m.MaxTS = m.BackupTS - 1 },
		"cluster id is 0":             func(m *manifest.Manifest) { m.Source.ClusterID = 0 },
		"no cluster name":             func(m *manifest.Manifest) { m.Source.Cluster.Name = "" },
		"no run id":                   func(m *manifest.Manifest) { m.Run = "" },
		`version of TiKV is "x"`:      func(m *manifest.Manifest) { m.Source.Version = "x" },
		`id "../x" is not one`:        func(m *manifest.Manifest) { m.ID = "../x" },
		"full backup type":            func(m *manifest.Manifest) { m.FullBackupType = "kv" },
		"schema is":                   func(m *manifest.Manifest) { m.Kind = "Seal" },
		"cut ended before it started": func(m *manifest.Manifest) { m.CutEndedAt = m.CreatedAt },
		"store 4 occurs twice":        func(m *manifest.Manifest) { m.Source.Stores[1].ID = 4 },
		"a store has id 0":            func(m *manifest.Manifest) { m.Source.Stores[1].ID = 0 },
		"volume vol-0s occurs twice":  func(m *manifest.Manifest) { m.Source.Stores[1].Volumes[0].ID = "vol-0s" },
		"no data volume": func(m *manifest.Manifest) {
			m.Source.Stores[2].Volumes[0].Role, m.Snapshots[4].Role = cluster.RoleWAL, cluster.RoleWAL
		},
		"store 6 has two volumes for": func(m *manifest.Manifest) { m.Source.Stores[2].Volumes[1].Role = cluster.RoleData },
		"snapshot snap-0s occurs":     func(m *manifest.Manifest) { m.Snapshots[1].ID = "snap-0s" },
		"has two snapshots":           func(m *manifest.Manifest) { m.Snapshots[1].Volume = "vol-0s" },
		"has no snapshot":             func(m *manifest.Manifest) { m.Snapshots = m.Snapshots[:5] },
		"which no store has":          func(m *manifest.Manifest) { m.Snapshots[0].Volume = "vol-x" },
		"is of store 6, its volume":   func(m *manifest.Manifest) { m.Snapshots[0].Store = 6 },
		`has role "rocksdb.wal-dir"`:  func(m *manifest.Manifest) { m.Snapshots[0].Role = cluster.RoleWAL },
		"has no id":                   func(m *manifest.Manifest) { m.Snapshots[0].ID = "" },
		"has size 0 GiB":              func(m *manifest.Manifest) { m.Snapshots[0].SizeGiB = 0 },
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			m := sample()
			change(m)
			err := m.Validate()
			require.ErrorContains(t, err, text)
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			if text != "schema is" {
				_, err = manifest.Encode(m)
				require.ErrorContains(t, err, text, "a broken manifest is not written")
			}
		})
	}
}

func TestValidate_ManyFaults_ListsTen(t *testing.T) {
	t.Parallel()
	m := sample()
	for range 20 {
		m.Snapshots = append(m.Snapshots, manifest.Snapshot{})
	}
	err := m.Validate()
	require.ErrorContains(t, err, "more")
	require.LessOrEqual(t, strings.Count(err.Error(), ";"), 10)
}

func TestManifest_Queries_FollowTheSnapshots(t *testing.T) {
	t.Parallel()
	m := sample()
	require.Equal(t, []cluster.SnapshotID{"snap-0s", "snap-0r", "snap-1s", "snap-1r", "snap-2s", "snap-2r"}, m.SnapshotIDs())
	require.Equal(t, m.Snapshots[2:4], m.SnapshotsOf(5))
	require.Empty(t, m.SnapshotsOf(99))
	require.EqualValues(t, 600, m.SizeGiB())
}

// A cluster of 300 stores with 4 volumes each and long PV specs makes a manifest of megabytes.
func TestEncode_LargeCluster_RoundTrips(t *testing.T) {
	t.Parallel()
	m := sample()
	m.Source.Stores, m.Snapshots = nil, nil
	pv := json.RawMessage(`{"spec":"` + strings.Repeat("x", 4000) + `"}`)
	for i := range 300 {
		s := cluster.Store{ID: cluster.StoreID(i + 1)}
		for j, role := range []cluster.Role{cluster.RoleData, cluster.RoleRaftLog, cluster.RoleWAL, "log.file"} {
			v := cluster.Volume{ID: cluster.VolumeID(fmt.Sprintf("vol-%d-%d", i, j)), Role: role, VolumeSpec: cluster.VolumeSpec{SizeGiB: 1}}
			s.Volumes = append(s.Volumes, v)
			m.Snapshots = append(m.Snapshots, manifest.NewSnapshot(cluster.SnapshotID("snap-"+v.ID), s.ID, v, created))
			m.Kubernetes.PVs = append(m.Kubernetes.PVs, pv)
		}
		m.Source.Stores = append(m.Source.Stores, s)
	}
	got, err := manifest.Decode(encoded(t, m))
	require.NoError(t, err)
	require.Len(t, got.Snapshots, 1200)
	require.Len(t, got.Kubernetes.PVs, 1200)
}

func FuzzDecode(f *testing.F) {
	f.Add(encoded(f, sample()))
	f.Add([]byte(`{"apiVersion":"tisnap.io/v1","kind":"Manifest"}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		m, err := manifest.Decode(doc)
		if err != nil {
			require.Contains(t, []failure.Kind{failure.Corrupt, failure.Usage}, failure.KindOf(err))
			return
		}
		again, err := manifest.Decode(encoded(t, m))
		require.NoError(t, err)
		require.Equal(t, string(encoded(t, m)), string(encoded(t, again)))
	})
}
