package crash

import (
	"slices"
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

// A run whose calls depend on when it polls has no cell that another run of it may never come to.
func TestCells_CallsOfAPoll_AreNoEffectsOfAStep(t *testing.T) {
	t.Parallel()
	points := []string{"journal.begin.thaw", "pd.PauseScheduler", "pd.ResumeScheduler", "pd.DropTTLConfig"}
	steps := []phase.Outline{{Name: "thaw", ReadOnly: true}}
	ofRestore, err := Cells(Restore, steps, points)
	require.NoError(t, err)
	require.Len(t, ofRestore, 2)
	require.Equal(t, "restore/thaw: before the answer of pd.DropTTLConfig", ofRestore[1].String())
	ofBackup, err := Cells(Backup, steps, points)
	require.NoError(t, err)
	require.Len(t, ofBackup, 4)
}

// Every step of every run with a journal has a cell of each position that it has, and a run that does not come to one of
// them makes no matrix: TestMatrix_Sample makes each of the runs.
func TestCells_EveryStepOfTheRunbooks_HasItsPositions(t *testing.T) {
	t.Parallel()
	for _, run := range []Run{Backup, Restore, Resolve} {
		t.Run(string(run), func(t *testing.T) {
			t.Parallel()
			require.Contains(t, Runs(), run)
			steps := run.steps()
			require.NotEmpty(t, steps)
			var points []string
			for _, s := range steps {
				points = append(points, "journal.begin."+s.Name)
			}
			got, err := Cells(run, steps, points)
			require.NoError(t, err)
			for i, s := range steps {
				want := []Position{BeforeEffect}
				if !s.ReadOnly {
					want = append(want, BeforeJournal)
				}
				if s.Undo {
					want = append(want, InUndo, AfterUndo)
				}
				if s.Undo && s.Name != "lock" {
					want = append(want, SuspendedUndo)
				}
				var have []Position
				for _, c := range got {
					if c.Step == s.Name && c.Position != Suspended && (c.Position != SuspendedUndo || c.Point == "") {
						have = append(have, c.Position)
					}
				}
				require.Equal(t, want, have, s.Name)
				_, err := Cells(run, steps, slices.Concat(points[:i], points[i+1:]))
				require.ErrorContains(t, err, string(run)+"/"+s.Name+":")
			}
		})
	}
}

// Objects of either Operator are effects, and each run's undo deletes the one that its cluster is made from.
func TestCells_OfEitherOperator_AreKilledAtItsObjects(t *testing.T) {
	t.Parallel()
	steps := []phase.Outline{{Name: "create-cluster", Undo: true}}
	for run, kind := range map[Run]string{Restore: "tidbclusters", Restore2: "clusters"} {
		t.Run(string(run), func(t *testing.T) {
			t.Parallel()
			points := []string{"journal.begin.create-cluster", "kube.create." + kind, "kube.create.tikvgroups", "kube.create.tikvs", "kube.list.pods"}
			all, err := Cells(run, steps, points)
			require.NoError(t, err)
			var answers, undone []string
			for _, c := range all {
				switch c.Position {
				case AfterEffect:
					answers = append(answers, c.Point)
				case SuspendedUndo:
					undone = append(undone, c.Point)
				default:
				}
			}
			require.Equal(t, points[1:4], answers)
			require.Equal(t, []string{"", "kube.delete." + kind}, undone)
		})
	}
}

// What follows a kill is part of the cell's name, by which it is run again.
func TestCell_NamesWhatFollows(t *testing.T) {
	t.Parallel()
	c := Cell{Run: Restore2, Step: "await-pd", Position: BeforeEffect, Then: GCCluster}
	require.Equal(t, "restore-2x/await-pd: before the effect, then gc-cluster", c.String())
	for _, run := range Runs() {
		require.Equal(t, run == Restore || run == RestoreArchive || run == RestoreVolumes || run == Restore2, run.removable(), run)
	}
}
