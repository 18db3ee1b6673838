package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/history"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/report"
	"github.com/tisnap/tisnap/pkg/runner"
)

// marked stores a backup of the cluster with marks.
func marked(t *testing.T, store objstore.Store, id cluster.BackupID, clusterID uint64, set *marks.Set) *manifest.Manifest {
	t.Helper()
	c := catalog.Catalog{Store: store}
	at := time.Date(2026, 11, 21, 8, 10, 0, 0, time.UTC)
	v := cluster.Volume{ID: "vol-1", Role: cluster.RoleData, Zone: "us-west-2a", VolumeSpec: cluster.VolumeSpec{Type: "gp3", SizeGiB: 100}}
	m := &manifest.Manifest{
		ID: id, Run: "run-1", Region: "us-west-2", BackupTS: cluster.MakeTS(at, 0), CreatedAt: at,
		Source: cluster.Topology{
			Cluster: cluster.Name{Namespace: "tidb", Name: "prod"}, ClusterID: clusterID, Version: "8.5.0",
			Stores: []cluster.Store{{ID: 1, Volumes: []cluster.Volume{v}}},
		},
		Snapshots: []manifest.Snapshot{manifest.NewSnapshot("snap-1", 1, v, at)},
	}
	var err error
	m.Marks, err = c.PutMarks(t.Context(), id, set, m.BackupTS-1)
	require.NoError(t, err)
	require.NoError(t, c.PutManifest(t.Context(), m))
	return m
}

func TestChangedSince_OfTheBackupBefore(t *testing.T) {
	t.Parallel()
	now := time.Now()
	prod := cluster.Name{Namespace: "tidb", Name: "prod"}
	of := func(id cluster.BackupID, ago time.Duration) history.Run {
		return history.Run{Operation: report.Backup, Outcome: phase.Done, Cluster: prod, Backup: id, Started: now.Add(-ago)}
	}
	failed, other, restored := of("failed", time.Hour), of("other", time.Hour), of("restored", time.Hour)
	failed.Outcome, other.Cluster.Name, restored.Operation = phase.Failed, "test", report.Restore
	set := func(indexes ...uint64) *marks.Set {
		var all []marks.Mark
		for i, index := range indexes {
			all = append(all, marks.Mark{Region: cluster.RegionID(i + 1), Version: 1, Term: 1, Index: index})
		}
		return marks.NewSet(all)
	}
	for name, row := range map[string]struct {
		past      []history.Run
		clusterID uint64
		broken    bool // the marks of the backup before are
		want      *report.Changed
	}{
		"the youngest before": {past: []history.Run{of("old", 3*time.Hour), of("before", 2*time.Hour), failed, other, restored, of("now", 0)}, clusterID: 7,
			want: &report.Changed{Since: "before", Regions: 3, Of: 5, DataBytes: 600}}, // one written to, one without a mark then, one now
		"one after it was deleted": {past: []history.Run{of("before", 2*time.Hour), of("deleted", time.Hour)}, clusterID: 7,
			want: &report.Changed{Since: "before", Regions: 3, Of: 5, DataBytes: 600}},
		"none before":                     {past: []history.Run{failed, other, restored, of("now", 0)}, clusterID: 7},
		"a later one":                     {past: []history.Run{of("before", -time.Hour)}, clusterID: 7},
		"a cluster of the same name":      {past: []history.Run{of("before", time.Hour)}, clusterID: 8},
		"its marks cannot be trusted":     {past: []history.Run{of("before", time.Hour)}, clusterID: 7, broken: true},
		"it was deleted":                  {past: []history.Run{of("deleted", time.Hour)}, clusterID: 7},
		"of a name that cannot be a name": {past: []history.Run{of("../before", time.Hour)}, clusterID: 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := objstoretest.NewMemory(nil)
			marked(t, store, "before", 7, set(10, 10, 10))
			if row.broken {
				require.NoError(t, store.Delete(t.Context(), manifest.MarksKey("before")))
				_, err := store.Create(t.Context(), manifest.MarksKey("before"), []byte("x"))
				require.NoError(t, err)
			}
			result := &backup.Result{
				Manifest: marked(t, store, "now", row.clusterID, set(10, 11, 10, 10)), Marks: set(10, 11, 10, 10), Regions: 5, DataBytes: 1000, Outcome: runner.Outcome{Started: now},
			}
			require.Equal(t, row.want, changedSince(t.Context(), store, row.past, result))
			result.Marks = nil
			require.Nil(t, changedSince(t.Context(), store, row.past, result), "without marks")
		})
	}
}
