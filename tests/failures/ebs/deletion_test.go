package ebs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/gc"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/testbed"
)

// A clean-up may find its metadata lost, empty, or half of the snapshots gone: it deletes by the run's tag,
// lists what, and "nothing found" is not "done".
// https://github.com/pingcap/tidb-operator/issues/5196 https://github.com/pingcap/tidb-operator/issues/5503
// Catalogue: D1.
func TestMetadataOrSnapshotsMissing_DeletesAndListsTheRest(t *testing.T) { //nolint:tparallel // the parts count what the others would change
	t.Parallel()
	w := newWhole(t, 3, noData)
	store := w.store(t)
	wipe := func(t *testing.T, keys ...string) {
		for _, key := range keys {
			require.NoError(t, store.Delete(t.Context(), key))
		}
	}
	for name, row := range map[string]struct {
		prepare func(t *testing.T, id cluster.BackupID)
		deleted int // snapshots
		args    []string
	}{
		"meta-missing": {func(t *testing.T, id cluster.BackupID) {
			wipe(t, manifest.ManifestKey(id), manifest.SealKey(id), manifest.ClaimKey(id), manifest.BackupMetaKey(id))
		}, 6, nil},
		"all-missing": {func(t *testing.T, id cluster.BackupID) {
			objects, err := store.List(t.Context(), "")
			require.NoError(t, err)
			for _, o := range objects {
				if strings.HasPrefix(o.Key, manifest.BackupPrefix(id)) || strings.HasPrefix(o.Key, manifest.RunPrefix(cluster.RunID("run-"+id))) {
					wipe(t, o.Key)
				}
			}
			nothing := w.refused(t, 4, "delete", string(id), "--yes", "-o", "json").report(t)
			require.True(t, nothing.Nothing, "without the run's name nothing can be found, and that is reported")
		}, 6, []string{"--run-id", "run-all-missing"}},
		"meta-empty": {func(t *testing.T, id cluster.BackupID) {
			wipe(t, manifest.ManifestKey(id))
			_, err := store.Create(t.Context(), manifest.ManifestKey(id), nil)
			require.NoError(t, err)
		}, 6, nil},
		"snapshots-gone": {func(t *testing.T, id cluster.BackupID) {
			for _, s := range w.snapshots(string(id)) {
				w.aws(t, "DeleteSnapshot", "SnapshotId", string(s))
			}
		}, 0, nil},
		"half-gone": {func(t *testing.T, id cluster.BackupID) {
			for _, s := range w.snapshots(string(id))[:3] {
				w.aws(t, "DeleteSnapshot", "SnapshotId", string(s))
			}
		}, 3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w.backup(t, name)
			require.Len(t, w.snapshots(name), 6)
			w.visible(t, 2*time.Second)
			row.prepare(t, cluster.BackupID(name))
			report := w.ok(t, append([]string{"delete", name, "--yes", "--last", "--delete-rate", "100", "-o", "json"}, row.args...)...).report(t)
			snapshots := 0
			for _, i := range report.Items {
				require.Equal(t, gc.ActionDeleted, i.Action, "%+v", i)
				if i.Kind == gc.KindSnapshot {
					snapshots++
				}
			}
			require.Equal(t, row.deleted, snapshots)
			require.Empty(t, w.snapshots(name))
			again := w.refused(t, 4, "delete", name, "--yes", "-o", "json").report(t)
			require.True(t, again.Nothing, "the second time nothing is found, and that is reported")
		})
	}
}

// Deletions of hundreds do not make a backup wait: they are paced, and in a bucket of their own.
// https://github.com/pingcap/tidb-operator/issues/5451
// Catalogue: D2.
func Test600DeletionsDuringABackup_BackupSeesNoThrottle(t *testing.T) {
	t.Parallel()
	w := newWhole(t, 3, noData, func(c *testbed.Config) {
		c.Rules.Buckets["CreateSnapshots"] = unlimited
		c.Rules.PendingInAccount, c.Rules.PendingPerVolume = 10_000, 10_000
	})
	for n := range 100 {
		for _, cut := range w.volumesByInstance() {
			w.cut(t, cut, fmt.Sprintf("old-%d", n%2), "old")
		}
	}
	require.Len(t, w.snapshots("old"), 600)
	w.visible(t, 4*time.Second)
	type result struct{ e ended }
	done := make(chan result, 1)
	go func() {
		done <- result{w.run(t, "delete", "old", "--yes", "--run-id", "old-0", "--delete-rate", "60")}
	}()
	for n := range 3 {
		e := w.ok(t, "backup", liveName.String(), "--name", fmt.Sprintf("b%d", n), "--log-level", "debug")
		require.NotContains(t, e.stderr, "RequestLimitExceeded")
	}
	first := <-done
	require.Zero(t, first.e.code, first.e.stderr)
	w.ok(t, "delete", "old", "--yes", "--run-id", "old-1", "--delete-rate", "60")
	require.Empty(t, w.snapshots("old"))
	w.balanced(t)
}

// The last backup of a cluster that can be restored is not deleted by mistake; a failed or buried one does not
// count as another.
// https://github.com/pingcap/tidb-operator/issues/4939
// Catalogue: D3.
func TestLastGoodBackup_IsKeptUnlessForced(t *testing.T) {
	t.Parallel()
	w := newWhole(t, 3, noData)
	w.backup(t, "first")
	w.fault(t, fault.Rule{Point: "ec2.CreateSnapshots", Code: "UnauthorizedOperation", Nth: 2, Times: -1})
	require.NotZero(t, w.run(t, "backup", liveName.String(), "--name", "failed").code)
	w.faults.Clear()
	e := w.refused(t, 6, "delete", "first", "--yes")
	require.Contains(t, e.stderr, "only restorable backup of cluster tidb/prod")
	w.backup(t, "second")
	w.ok(t, "delete", "first", "--yes", "--delete-rate", "100")
	w.refused(t, 6, "delete", "second", "--yes")
	w.refused(t, 0, "delete", "second", "--dry-run", "--last")
	w.ok(t, "delete", "second", "--yes", "--last", "--delete-rate", "100")
	w.ok(t, "gc", "--yes", "--older-than", "0s", "--delete-rate", "100")
	w.balanced(t)
}

// Snapshots do not live and die with a Kubernetes object: they survive the cluster and all that is in its
// namespace, and gc keeps them.
// https://github.com/velero-io/velero/issues/9162
// Catalogue: D5.
func TestClusterDeletedRightAfterTheBackup_SnapshotsSurvive(t *testing.T) {
	t.Parallel()
	w := newWhole(t, 3, noData)
	w.backup(t, "b")
	w.destroy(t)
	for _, o := range w.Kube.List("persistentvolumeclaims", "tidb") {
		require.NoError(t, w.Kube.Remove(o))
	}
	report := w.ok(t, "gc", "--yes", "--older-than", "0s", "-o", "json").report(t)
	require.Equal(t, 6, report.Count(gc.ActionInUse))
	require.Zero(t, report.Count(gc.ActionDeleted))
	require.Len(t, w.snapshots("b"), 6)
	w.refused(t, 0, "restore", "b", "--to", wholeTarget.String(), "--dry-run")
	w.balanced(t)
}

// A locked snapshot cannot be deleted: the backup is kept whole, with the date, and gc keeps locked ones too.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-snapshot-lock.html
// Catalogue: D7.
func TestLockedSnapshots_BackupIsKeptWhole(t *testing.T) {
	t.Parallel()
	w := newWhole(t, 5, noData)
	w.backup(t, "b")
	w.backup(t, "other")
	w.visible(t, 2*time.Second)
	all := w.snapshots("b")
	require.Len(t, all, 10)
	for _, id := range all[:3] {
		w.aws(t, "LockSnapshot", "SnapshotId", string(id), "LockMode", "governance", "LockDuration", "2")
	}
	e := w.refused(t, 6, "delete", "b", "--yes")
	require.Contains(t, e.stderr, "3 of 10 snapshots are locked, until 20")
	for _, id := range all[:3] {
		require.Contains(t, e.stderr, string(id))
	}
	w.refused(t, 0, "restore", "b", "--to", wholeTarget.String(), "--dry-run")

	// The same backup as that of a run that died before it sealed.
	require.NoError(t, w.store(t).Delete(t.Context(), manifest.SealKey("b")))
	report := w.ok(t, "gc", "--yes", "--older-than", "0s", "--delete-rate", "100", "-o", "json").report(t)
	locked := 0
	for _, i := range report.Items {
		if i.Kind == gc.KindSnapshot && i.Action == gc.ActionKeep {
			require.Contains(t, i.Reason, "locked")
			locked++
		}
	}
	require.Equal(t, 3, locked)
	require.Len(t, w.snapshots("b"), 3)
	require.Len(t, w.snapshots("other"), 10)
}
