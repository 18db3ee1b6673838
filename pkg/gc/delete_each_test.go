package gc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

func TestDeleteEach_TheOldestFirst(t *testing.T) {
	t.Parallel()
	p := daily(t, 4)
	var order []cluster.SnapshotID
	p.ec2.onDelete = func(id cluster.SnapshotID) error { order = append(order, id); return nil }
	ids := []cluster.BackupID{"day-2", "day-4", "day-2"}
	report, err := DeleteEach(t.Context(), p.deps, ids, DeleteOptions{Rate: fast, DryRun: true})
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{"day-2": ActionDelete, "day-4": ActionDelete}, decided(report))
	require.Empty(t, order, "a dry run deletes")

	report, err = DeleteEach(t.Context(), p.deps, ids, DeleteOptions{Rate: fast})
	require.NoError(t, err)
	require.Equal(t, map[cluster.BackupID]Action{"day-2": ActionDeleted, "day-4": ActionDeleted}, decided(report))
	require.Equal(t, []cluster.SnapshotID{"snap-day-4", "snap-day-2"}, order)
	require.Equal(t, []cluster.SnapshotID{"snap-day-1", "snap-day-3"}, p.ec2.ids())
}

func TestDeleteEach_OneUnknown_DeletesNone(t *testing.T) {
	t.Parallel()
	p := daily(t, 3)
	_, err := DeleteEach(t.Context(), p.deps, []cluster.BackupID{"day-3", "dya-2"}, DeleteOptions{Rate: fast})
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "did you mean day-2")
	require.Len(t, p.ec2.ids(), 3)
}

func TestDeleteEach_OneMustStay_TheOthersGo(t *testing.T) {
	t.Parallel()
	p := daily(t, 4)
	p.ec2.locks = []ebs.SnapshotLock{{Snapshot: "snap-day-3", Mode: "compliance", ExpiresAt: time.Now().Add(time.Hour)}}
	p.ec2.onDelete = func(id cluster.SnapshotID) error {
		if id == "snap-day-2" {
			return failure.New(failure.Denied, "delete snapshot", "", "no")
		}
		return nil
	}
	ids := []cluster.BackupID{"day-2", "day-3", "day-4"}
	report, err := DeleteEach(t.Context(), p.deps, ids, DeleteOptions{Rate: fast})
	require.ErrorContains(t, err, "day-3: 1 of 1 snapshots are locked")
	require.ErrorContains(t, err, "delete snapshot")
	require.Equal(t, map[cluster.BackupID]Action{
		"day-2": ActionLeft, "day-3": ActionInUse, "day-4": ActionDeleted,
	}, decided(report))
	require.Equal(t, []cluster.SnapshotID{"snap-day-1", "snap-day-2", "snap-day-3"}, p.ec2.ids())
}

// One by one each of them would pass the check, until the last.
func TestDeleteEach_AllRestorableOnes_StayTogether(t *testing.T) {
	t.Parallel()
	p := daily(t, 2)
	ids := []cluster.BackupID{"day-1", "day-2"}
	report, err := DeleteEach(t.Context(), p.deps, ids, DeleteOptions{Rate: fast})
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.Equal(t, map[cluster.BackupID]Action{"day-1": ActionInUse, "day-2": ActionInUse}, decided(report))
	require.Len(t, p.ec2.ids(), 2)

	report, err = DeleteEach(t.Context(), p.deps, ids, DeleteOptions{Rate: fast, Last: true})
	require.NoError(t, err)
	require.Equal(t, 2, report.Count(ActionDeleted))
	require.Empty(t, p.ec2.ids())
}
