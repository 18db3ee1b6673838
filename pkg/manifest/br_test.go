package manifest_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// recorded is a manifest of the cluster in testdata/clustermeta.json.
func recorded(t testing.TB) *manifest.Manifest {
	t.Helper()
	m := sample()
	m.ClusterMeta = bytes.TrimSpace(readFile(t, "clustermeta.json"))
	m.Source.Version = "v7.5.1"
	m.Source.Stores, m.Snapshots = nil, nil
	for i, id := range []cluster.VolumeID{"vol-9c5ee71d6f3913d86", "vol-5c08cff595af61aa8", "vol-7e8f654d4379082bf"} {
		v := cluster.Volume{ID: id, Role: cluster.RoleData, MountPath: "/var/lib/tikv", Zone: "us-west-2a", VolumeSpec: cluster.VolumeSpec{SizeGiB: 10}}
		s := cluster.Store{ID: cluster.StoreID(4 + i), Ordinal: i, Volumes: []cluster.Volume{v}}
		m.Source.Stores = append(m.Source.Stores, s)
		snapshot := cluster.SnapshotID("snap-" + id[4:])
		m.Snapshots = append(m.Snapshots, manifest.NewSnapshot(snapshot, s.ID, v, created))
	}
	return m
}

func TestParseBR_RecordedClusterMeta_RoundTripsByteByByte(t *testing.T) {
	t.Parallel()
	want := bytes.TrimSpace(readFile(t, "clustermeta.json"))
	d, err := manifest.ParseBR(want)
	require.NoError(t, err)
	require.Len(t, d.TiKV.Stores, 3)
	require.Equal(t, "vol-9c5ee71d6f3913d86", d.TiKV.Stores[0].Volumes[0].ID)
	require.Len(t, d.Kubernetes.PVs, 3)
	got, err := d.Encode()
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

func TestBackupMeta_FromClusterMeta_IsGolden(t *testing.T) {
	t.Parallel()
	got, err := manifest.BackupMeta(recorded(t))
	require.NoError(t, err)
	golden(t, "backupmeta.recorded.json", got)
	d, err := manifest.ParseBR(got)
	require.NoError(t, err)
	require.NoError(t, d.Validate())
	require.Equal(t, "7.5.1", d.Cluster.Version)
	require.Equal(t, "snap-9c5ee71d6f3913d86", d.TiKV.Stores[0].Volumes[0].SnapshotID)
	require.Equal(t, "us-west-2a", d.TiKV.Stores[0].Volumes[0].Zone)
}

func TestBackupMeta_WithoutClusterMeta_IsGolden(t *testing.T) {
	t.Parallel()
	got, err := manifest.BackupMeta(sample())
	require.NoError(t, err)
	golden(t, "backupmeta.own.json", got)
	d, err := manifest.ParseBR(got)
	require.NoError(t, err)
	require.NoError(t, d.Validate())
}

func TestBackupMeta_OtherVolumes_IsCorrupt(t *testing.T) {
	t.Parallel()
	m := recorded(t)
	m.Snapshots[1].Volume = "vol-other"
	_, err := manifest.BackupMeta(m)
	require.ErrorContains(t, err, "volume vol-5c08cff595af61aa8 of store 5 has no snapshot")
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
	m = recorded(t)
	m.Snapshots = append(m.Snapshots, manifest.Snapshot{ID: "snap-x", Volume: "vol-x", Store: 9})
	_, err = manifest.BackupMeta(m)
	require.ErrorContains(t, err, "3 volumes, but 4 snapshots")
	m.ClusterMeta = json.RawMessage(`[]`)
	_, err = manifest.BackupMeta(m)
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
}

func TestParseBR_UnknownMembers_AreKeptAtEveryLevel(t *testing.T) {
	t.Parallel()
	const doc = `{"cluster_info":{"cluster_version":"7.5.1","full_backup_type":"aws-ebs","resolved_ts":450000000000000001,` +
		`"replicas":null,"n1":18446744073709551615},"tikv":{"replicas":1,"stores":[{"store_id":1,"volumes":[{"volume_id":"v",` +
		`"type":"storage.data-dir","mount_path":"/m","snapshot_id":"s","restore_volume_id":"","volume_az":"a","status":"x"}],` +
		`"n2":[]}],"n3":{}},"pd":{"replicas":1,"n4":1.50},"tidb":{"replicas":1},"kubernetes":{"pvcs":[],"pvs":null,` +
		`"crd_tidb_cluster":{"b":1,"a":2},"options":{"x":"y"},"n5":null},"options":null,"region":"r","N6":"Tikv","TIKV":3}`
	d, err := manifest.ParseBR([]byte(doc))
	require.NoError(t, err)
	got, err := d.Encode()
	require.NoError(t, err)
	require.Equal(t, doc, string(got))
}

func TestValidateBR_WhatBRRefuses_IsCorrupt(t *testing.T) {
	t.Parallel()
	for text, change := range map[string]func(d *manifest.BRMeta){
		"no cluster_info":          func(d *manifest.BRMeta) { d.Cluster = nil },
		`cluster_version is "7.x"`: func(d *manifest.BRMeta) { d.Cluster.Version = "7.x" },
		"resolved_ts is 0":         func(d *manifest.BRMeta) { d.Cluster.ResolvedTS = 0 },
		"full_backup_type":         func(d *manifest.BRMeta) { d.Cluster.FullBackupType = "kv" },
		"no TiKV stores":           func(d *manifest.BRMeta) { d.TiKV.Stores = nil },
		"but replicas is 9":        func(d *manifest.BRMeta) { d.TiKV.Replicas = 9 },
		"store 4 has no volumes":   func(d *manifest.BRMeta) { d.TiKV.Stores[0].Volumes = nil },
		"has no snapshot":          func(d *manifest.BRMeta) { d.TiKV.Stores[0].Volumes[0].SnapshotID = "" },
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			doc, err := manifest.BackupMeta(recorded(t))
			require.NoError(t, err)
			d, err := manifest.ParseBR(doc)
			require.NoError(t, err)
			change(d)
			err = d.Validate()
			require.ErrorContains(t, err, text)
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
		})
	}
}

func TestSetRestoreVolume_KnownSnapshot_IsEntered(t *testing.T) {
	t.Parallel()
	doc, err := manifest.BackupMeta(recorded(t))
	require.NoError(t, err)
	d, err := manifest.ParseBR(doc)
	require.NoError(t, err)
	require.True(t, d.SetRestoreVolume("snap-9c5ee71d6f3913d86", "vol-new", "us-west-2b"))
	require.False(t, d.SetRestoreVolume("snap-none", "vol-new", "us-west-2b"))
	require.Equal(t, "vol-new", d.TiKV.Stores[0].Volumes[0].RestoreVolumeID)
	require.Equal(t, "us-west-2b", d.TiKV.Stores[0].Volumes[0].Zone)
}

func FuzzParseBR(f *testing.F) {
	f.Add(readFile(f, "clustermeta.json"))
	f.Add(readFile(f, "backupmeta.recorded.json"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		d, err := manifest.ParseBR(doc)
		if err != nil {
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			return
		}
		once, err := d.Encode()
		require.NoError(t, err)
		d, err = manifest.ParseBR(once)
		require.NoError(t, err)
		twice, err := d.Encode()
		require.NoError(t, err)
		require.Equal(t, string(once), string(twice))
	})
}
