package ebs_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/ebs/ebstest"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// unlimited is for what a test does to set the scene.
var unlimited = ebstest.Bucket{Size: 1e6, Refill: 1e6}

// volumesByInstance are the cluster's nodes.
func (w *whole) volumesByInstance() []cluster.InstanceID {
	seen := map[cluster.InstanceID]bool{}
	var out []cluster.InstanceID
	for _, id := range w.Volumes(liveName) {
		v, ok := w.EC2.Volume(id)
		if ok && v.Instance != "" && !seen[v.Instance] {
			seen[v.Instance] = true
			out = append(out, v.Instance)
		}
	}
	return out
}

// cut snapshots all data volumes of an instance under a run's tags, as a backup would.
func (w *whole) cut(t *testing.T, i cluster.InstanceID, run, backup string) {
	t.Helper()
	w.aws(t, "CreateSnapshots", "InstanceSpecification.InstanceId", string(i), "InstanceSpecification.ExcludeBootVolume", "true",
		"TagSpecification.1.ResourceType", "snapshot",
		"TagSpecification.1.Tag.1.Key", ebs.TagRun, "TagSpecification.1.Tag.1.Value", run,
		"TagSpecification.1.Tag.2.Key", ebs.TagBackup, "TagSpecification.1.Tag.2.Value", backup,
		"TagSpecification.1.Tag.3.Key", ebs.TagCluster, "TagSpecification.1.Tag.3.Value", liveName.String())
}

// journal writes the journal of a backup that ended so.
func (w *whole) journal(t *testing.T, run cluster.RunID, backup cluster.BackupID, ending string) {
	t.Helper()
	j := journal.NewStoreJournal(w.store(t), manifest.JournalPrefix(run))
	about := fmt.Appendf(nil, `{"operation":"backup","cluster":{"namespace":"tidb","name":"prod"},"backup":%q,"tool":"test"}`, backup)
	for seq, r := range []phase.Record{{Type: phase.RecordRun, Data: about}, {Type: phase.RecordEnd, Error: ending}} {
		r.Seq, r.Run, r.Time = seq+1, run, time.Now().Add(-2*time.Hour)
		require.NoError(t, j.Append(t.Context(), r))
	}
}

// seal writes a sealed backup of these snapshots.
func (w *whole) seal(t *testing.T, run cluster.RunID, id cluster.BackupID, snapshots []cluster.SnapshotID) {
	t.Helper()
	now := time.Now().UTC()
	m := &manifest.Manifest{
		ID: id, Run: run, Region: testbed.Region, BackupTS: cluster.MakeTS(now, 0), CreatedAt: now,
		Source: cluster.Topology{Cluster: liveName, ClusterID: 7, Version: "8.5.0"},
	}
	for n, s := range snapshots {
		v := cluster.Volume{ID: cluster.VolumeID(fmt.Sprintf("vol-%017x", n)), Role: cluster.RoleData, Zone: testbed.Region + "a", VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}}
		st := cluster.Store{ID: cluster.StoreID(n + 1), Volumes: []cluster.Volume{v}}
		m.Source.Stores = append(m.Source.Stores, st)
		m.Snapshots = append(m.Snapshots, manifest.NewSnapshot(s, st.ID, v, now))
	}
	c := catalog.Catalog{Store: w.store(t)}
	require.NoError(t, c.Claim(t.Context(), catalog.Claim{ID: id, Run: run, Cluster: liveName, ClaimedAt: now}))
	require.NoError(t, c.PutManifest(t.Context(), m))
	require.NoError(t, c.Seal(t.Context(), id, now, 0))
}

// Orphans and dangling references are reported exactly, in both directions.
// https://github.com/velero-io/velero/issues/4383 https://github.com/ministryofjustice/cloud-platform/issues/7654
// Catalogue: D4.
func Test1000Snapshots37Orphans5Dangling_AreReportedExactly(t *testing.T) {
	t.Parallel()
	w := newWhole(t, 3, noData, func(c *testbed.Config) {
		c.Rules.Buckets["CreateSnapshots"] = unlimited
		c.Rules.PendingInAccount, c.Rules.PendingPerVolume = 10_000, 10_000
	})
	node := func(volumes int) cluster.InstanceID {
		i := w.EC2.AddInstance(testbed.Region + "a")
		for range volumes {
			v, err := w.EC2.CreateVolumeDirect(testbed.Region+"a", cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}, nil)
			require.NoError(t, err)
			require.NoError(t, w.EC2.Attach(v, i))
		}
		return i
	}
	large, five, orphans := node(107), node(5), node(37)
	for n := range 9 {
		w.cut(t, large, fmt.Sprintf("run-%d", n), fmt.Sprintf("b-%d", n))
	}
	w.cut(t, five, "run-0", "b-0")
	w.cut(t, orphans, "run-lost", "lost")
	w.visible(t, 3*time.Second)
	for n := range 9 {
		id := fmt.Sprintf("b-%d", n)
		snapshots := w.snapshots(id)
		w.journal(t, cluster.RunID(fmt.Sprintf("run-%d", n)), cluster.BackupID(id), "")
		w.seal(t, cluster.RunID(fmt.Sprintf("run-%d", n)), cluster.BackupID(id), snapshots)
	}
	w.journal(t, "run-lost", "lost", "killed")
	gone := w.snapshots("b-0")[107:]
	require.Len(t, gone, 5)
	for _, s := range gone {
		w.aws(t, "DeleteSnapshot", "SnapshotId", string(s))
	}
	require.Len(t, w.EC2.Snapshots(), 1000)

	check := func(e ended, action gc.Action) {
		require.EqualValues(t, 10, e.code, e.stderr)
		r := e.report(t)
		require.Equal(t, 37, r.Count(action))
		require.Equal(t, 963, r.Count(gc.ActionInUse))
		require.Len(t, r.Items, 1000)
		require.Equal(t, []gc.Missing{{Backup: "b-0", Snapshots: gone}}, r.Missing)
		for _, i := range r.Items {
			require.Equal(t, i.Backup == "lost", i.Action == action, "%+v", i)
		}
	}
	check(w.refused(t, 10, "gc", "--dry-run", "-o", "json"), gc.ActionDelete)
	check(w.run(t, "gc", "--yes", "--delete-rate", "100", "-o", "json"), gc.ActionDeleted)
	require.Len(t, w.EC2.Snapshots(), 963)
}
