package crash

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
)

// A new step is covered the day it is added, or the matrix fails.
func TestCells_StepThatTheRunDoesNotComeTo_IsAnError(t *testing.T) {
	t.Parallel()
	steps := []phase.Outline{{Name: "lock", Undo: true}, {Name: "cut"}, {Name: "new"}}
	points := []string{"journal.begin.lock", "object.lock", "journal.begin.cut", "ec2.CreateSnapshots", "tikv.3.PrepareSnapshotBackup", "tikv.1.PrepareSnapshotBackup"}
	_, err := Cells(Backup, steps, points)
	require.ErrorContains(t, err, "backup/new")
	got, err := Cells(Backup, steps[:2], points)
	require.NoError(t, err)
	var names []string
	for _, c := range got {
		names = append(names, c.String())
	}
	require.Equal(t, []string{
		"backup/lock: before the effect", "backup/lock: before the answer of object.lock", "backup/lock: before the journal",
		"backup/lock: in the undo", "backup/lock: after the undo",
		"backup/cut: before the effect", "backup/cut: before the answer of ec2.CreateSnapshots",
		"backup/cut: before the answer of tikv.*.PrepareSnapshotBackup", "backup/cut: before the journal",
		"backup/cut: suspended", "backup/cut: suspended of ec2.CreateSnapshots",
	}, names)
}

// A prune has no journal: it is killed before and after each kind of effect, and one without any effect proves nothing.
func TestCells_CommandWithoutSteps_IsKilledAtItsEffects(t *testing.T) {
	t.Parallel()
	got, err := Cells(Prune, Prune.steps(), []string{"ec2.DescribeSnapshots", "ec2.DeleteSnapshot", "ec2.DeleteSnapshot"})
	require.NoError(t, err)
	require.Len(t, got, 2)
	require.Equal(t, "prune/prune: before the effect of ec2.DeleteSnapshot", got[0].String())
	_, err = Cells(Delete, Delete.steps(), []string{"ec2.DescribeSnapshots"})
	require.Error(t, err)
}

// Every run with a journal is in the matrix with all of its steps.
func TestRuns_StepsAreThoseOfTheOutlines(t *testing.T) {
	t.Parallel()
	for _, run := range []Run{Backup, Restore, Resolve} {
		t.Run(string(run), func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, run.steps())
			require.Contains(t, Runs(), run)
		})
	}
}
