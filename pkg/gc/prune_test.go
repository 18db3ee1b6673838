package gc

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/catalog"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/manifest"
	"github.com/tisnap/tisnap/pkg/retention"
)

// daily makes sealed backups day-1 (the newest) to day-n, each with snapshot snap-day-i, of runs that are over. Nothing
// else is in the storage.
func daily(t *testing.T, n int) *place {
	t.Helper()
	p := newPlace(t)
	require.NoError(t, p.catalog.Bury(t.Context(), "b", "", "", false))
	require.NoError(t, p.catalog.Remove(t.Context(), "b", ""))
	p.ec2.snapshots = map[cluster.SnapshotID]ebs.Snapshot{}
	for i := 1; i <= n; i++ {
		id := fmt.Sprintf("day-%d", i)
		run := cluster.RunID("run-" + id)
		p.died(t, run, journal.About{Operation: journal.Backup, Cluster: prod, Backup: cluster.BackupID(id)})
		p.sealAs(t, cluster.BackupID(id), run, cluster.SnapshotID("snap-"+id), now.AddDate(0, 0, -i), fmt.Sprintf("tag-%d", i))
		p.cut(run, cluster.BackupID(id), cluster.SnapshotID("snap-"+id))
	}
	return p
}

func keepLast(n int) PruneOptions {
	return PruneOptions{Policy: retention.Policy{Last: n}, Rate: fast}
}

// decided maps the backups of a report to what became of them.
func decided(r *BackupsReport) map[cluster.BackupID]Action {
	out := map[cluster.BackupID]Action{}
	for _, b := range r.Backups {
		out[b.ID] = b.Action
	}
	return out
}

func TestPrune_DeletesWhatNoRuleKeeps_TheOldestFirst(t *testing.T) {
	t.Parallel()
	p := daily(t, 4)
	var order []cluster.SnapshotID
	p.ec2.onDelete = func(id cluster.SnapshotID) error { order = append(order, id); return nil }
	dry := keepLast(2)
	dry.DryRun = true
	report, err := Prune(t.Context(), p.deps, dry)
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{
		"day-1": ActionKeep, "day-2": ActionKeep, "day-3": ActionDelete, "day-4": ActionDelete,
	}, decided(report))
	require.Empty(t, order, "a dry run deletes")

	report, err = Prune(t.Context(), p.deps, keepLast(2))
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{
		"day-1": ActionKeep, "day-2": ActionKeep, "day-3": ActionDeleted, "day-4": ActionDeleted,
	}, decided(report))
	require.Equal(t, []cluster.SnapshotID{"snap-day-4", "snap-day-3"}, order)
	require.Equal(t, []cluster.SnapshotID{"snap-day-1", "snap-day-2"}, p.ec2.ids())

	report, err = Prune(t.Context(), p.deps, keepLast(2))
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{"day-1": ActionKeep, "day-2": ActionKeep}, decided(report))
}

// A backup whose snapshots are gone, or whose manifest is damaged, is no backup: were it counted, the rules could keep
// nothing else.
func TestPrune_BackupThatCannotBeRestored_UsesUpNoRule(t *testing.T) {
	t.Parallel()
	p := daily(t, 4)
	delete(p.ec2.snapshots, "snap-day-1")
	key := manifest.ManifestKey("day-2")
	_, version, err := p.deps.Store.Get(t.Context(), key)
	require.NoError(t, err)
	_, err = p.deps.Store.Replace(t.Context(), key, []byte("{}"), version)
	require.NoError(t, err)
	report, err := Prune(t.Context(), p.deps, keepLast(1))
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{
		"day-1": ActionKeep, "day-2": ActionKeep, "day-3": ActionKeep, "day-4": ActionDeleted,
	}, decided(report))
}

func TestPrune_TheLastGoodBackup_StaysWhateverTheRules(t *testing.T) {
	t.Parallel()
	p := daily(t, 3)
	report, err := Prune(t.Context(), p.deps, PruneOptions{Policy: retention.Policy{Tags: []string{"tag-3"}}, Rate: fast})
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{"day-1": ActionKeep, "day-2": ActionDeleted, "day-3": ActionKeep}, decided(report))
}

func TestPrune_WhatIsInUse_Stays(t *testing.T) {
	t.Parallel()
	p := daily(t, 4)
	p.died(t, "reader", journal.About{Operation: journal.Restore, Cluster: prod, Backup: "day-3"})
	p.lock(t, "reader")
	p.ec2.locks = []ebs.SnapshotLock{{Snapshot: "snap-day-4", Mode: "compliance", ExpiresAt: time.Now().Add(time.Hour)}}
	dry := keepLast(1)
	dry.DryRun = true
	report, err := Prune(t.Context(), p.deps, dry)
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{
		"day-1": ActionKeep, "day-2": ActionDelete, "day-3": ActionInUse, "day-4": ActionInUse,
	}, decided(report))
	report, err = Prune(t.Context(), p.deps, keepLast(1))
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{
		"day-1": ActionKeep, "day-2": ActionDeleted, "day-3": ActionInUse, "day-4": ActionInUse,
	}, decided(report))
	require.Len(t, p.ec2.ids(), 3)
}

// A restore that begins after the plan was made is seen by the checks right before the deletion.
func TestPrune_RestoreBeginsMeanwhile_ItsBackupStays(t *testing.T) {
	t.Parallel()
	p := daily(t, 3)
	p.ec2.onDelete = func(id cluster.SnapshotID) error {
		if id == "snap-day-3" {
			p.died(t, "reader", journal.About{Operation: journal.Restore, Cluster: prod, Backup: "day-2"})
			p.lock(t, "reader")
		}
		return nil
	}
	report, err := Prune(t.Context(), p.deps, keepLast(1))
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{"day-1": ActionKeep, "day-2": ActionInUse, "day-3": ActionDeleted}, decided(report))
}

func TestPrune_Cancelled_IsFinishedByTheNextOne(t *testing.T) {
	t.Parallel()
	p := daily(t, 4)
	ctx, cancel := context.WithCancel(t.Context())
	p.ec2.onDelete = func(cluster.SnapshotID) error {
		cancel()
		return failure.New(failure.Denied, "delete snapshot", "", "no")
	}
	report, err := Prune(ctx, p.deps, keepLast(1))
	require.ErrorContains(t, err, "3 backups were not deleted")
	require.Equal(t, map[cluster.BackupID]Action{
		"day-1": ActionKeep, "day-2": ActionLeft, "day-3": ActionLeft, "day-4": ActionLeft,
	}, decided(report))
	buried, err := p.catalog.Buried(t.Context(), "day-4")
	require.NoError(t, err)
	require.True(t, buried)

	p.ec2.onDelete = nil
	report, err = Prune(t.Context(), p.deps, PruneOptions{Policy: retention.Policy{Last: 3}, Rate: fast})
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{
		"day-1": ActionKeep, "day-2": ActionKeep, "day-3": ActionKeep, "day-4": ActionDeleted,
	}, decided(report), "a removal that was interrupted is finished")
	require.Equal(t, []cluster.SnapshotID{"snap-day-1", "snap-day-2", "snap-day-3"}, p.ec2.ids())
}

func TestPrune_OtherClusters_StayUntouched(t *testing.T) {
	t.Parallel()
	p := daily(t, 3)
	o := keepLast(1)
	o.Clusters = []cluster.Name{{Namespace: "tidb", Name: "other"}}
	report, err := Prune(t.Context(), p.deps, o)
	require.NoError(t, err)
	require.Empty(t, report.Backups)
	require.Len(t, p.ec2.ids(), 3)
}

func TestPrune_Unsealed_IsLeftToGC(t *testing.T) {
	t.Parallel()
	p := daily(t, 1)
	require.NoError(t, p.catalog.Claim(t.Context(), catalog.Claim{ID: "half", Run: "r", Cluster: prod, ClaimedAt: now}))
	report, err := Prune(t.Context(), p.deps, keepLast(1))
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{"day-1": ActionKeep, "half": ActionKeep}, decided(report))
}

func TestPrune_NoRule_IsRefused(t *testing.T) {
	t.Parallel()
	p := daily(t, 2)
	_, err := Prune(t.Context(), p.deps, PruneOptions{})
	require.Equal(t, failure.Usage, failure.KindOf(err))
	require.Len(t, p.ec2.ids(), 2)
}
