package gc

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
)

// namesakes are two daily backups of one cluster, and one older backup of another cluster of the same name. With older, no
// seal names its cluster.
func namesakes(t *testing.T, older bool) *place {
	t.Helper()
	p := daily(t, 2)
	p.died(t, "run-other", journal.About{Operation: journal.Backup, Cluster: prod, Backup: "other", ClusterID: 8})
	p.sealOf(t, 8, "other", "run-other", "snap-other", now.AddDate(0, 0, -9))
	p.cut("run-other", "other", "snap-other")
	if !older {
		return p
	}
	for _, id := range []cluster.BackupID{"day-1", "day-2", "other"} {
		body, version, err := p.deps.Store.Get(t.Context(), manifest.SealKey(id))
		require.NoError(t, err)
		seal := map[string]any{}
		require.NoError(t, json.Unmarshal(body, &seal))
		require.Contains(t, seal, "clusterID")
		delete(seal, "clusterID")
		body, err = json.Marshal(seal)
		require.NoError(t, err)
		_, err = p.deps.Store.Replace(t.Context(), manifest.SealKey(id), body, version)
		require.NoError(t, err)
	}
	return p
}

// Two clusters of one name are two: the newer backups of one are none of the other's.
func TestPrune_Namesakes_ArePrunedEachByItself(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]bool{"by their seals": false, "by their manifests": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := namesakes(t, older)
			report, err := Prune(t.Context(), p.deps, keepLast(1))
			require.NoError(t, err)
			require.Equal(t, map[cluster.BackupID]Action{"day-1": ActionKeep, "day-2": ActionDeleted, "other": ActionKeep}, decided(report))
			require.Equal(t, []cluster.SnapshotID{"snap-day-1", "snap-other"}, p.ec2.ids())
		})
	}
}

func TestDelete_OnlyBackupOfANamesake_IsTheLastOne(t *testing.T) {
	t.Parallel()
	for name, older := range map[string]bool{"by their seals": false, "by their manifests": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := namesakes(t, older)
			_, err := Delete(t.Context(), p.deps, DeleteOptions{Backup: "other", Rate: fast})
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.ErrorContains(t, err, "it is the only restorable backup of cluster tidb/prod")
			require.Len(t, p.ec2.ids(), 3)
		})
	}
}
