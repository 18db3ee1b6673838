package crash

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Steps that are under way beside the cell's own may have a call on its way, and nothing more.
func TestAdded_OnlyWhatWasOnItsWay_IsAllowed(t *testing.T) {
	t.Parallel()
	const own, other, third = "pd.MarkRecovering", "ec2.DisableFastSnapshotRestores", "kube.update.tidbclusters"
	for name, row := range map[string]struct {
		point  string
		beside int
		points []string
		want   []string
	}{
		"reads, the lock and the journal": {own, 0, []string{"ec2.DescribeVolumes", "object.lock", "journal.done.wait"}, nil},
		"the cell's own":                  {own, 0, []string{own}, nil},
		"its own fan-out":                 {"tikv.*.RecoverRegion", 0, []string{"tikv.1.RecoverRegion", "tikv.2.RecoverRegion"}, nil},
		"a call with nothing beside":      {own, 0, []string{own, other}, []string{other}},
		"a call of the step beside":       {own, 1, []string{other, own, other}, nil},
		"a second kind of it":             {own, 1, []string{other, third}, []string{other, third}},
		"nothing was called yet":          {"", 0, []string{own}, []string{own}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, added(row.points, Cell{Point: row.point}, row.beside))
		})
	}
}

// A run that wrongly reports a held cluster raises a false alarm: only one that holds a cluster may.
func TestMayEnd_HeldIsOnlyOfABackup(t *testing.T) {
	t.Parallel()
	require.Equal(t, []int{6}, Cell{Run: Backup, Position: Suspended}.mayEnd())
	require.Equal(t, []int{6, 143, 9}, Cell{Run: Backup, Position: SuspendedUndo}.mayEnd())
	require.Equal(t, []int{6, 143}, Cell{Run: Restore, Position: SuspendedUndo}.mayEnd())
	require.Equal(t, []int{6, 143}, Cell{Run: Resolve, Position: SuspendedUndo}.mayEnd())
}

func TestTrap_Beside_AreTheStepsUnderWay(t *testing.T) {
	t.Parallel()
	trap := NewTrap(Cell{Step: "mark-recovering", Position: Suspended, Point: "pd.MarkRecovering", since: "mark-recovering"}, func(syscall.Signal) {})
	for _, point := range []string{
		"journal.begin.create-volumes", "journal.begin.await-pd", "journal.done.create-volumes", "journal.begin.end-fast-restore",
		"journal.done.await-pd", "journal.begin.mark-recovering",
	} {
		require.Nil(t, trap.Watch(point))
	}
	require.NotNil(t, trap.Watch("pd.MarkRecovering"))
	require.Equal(t, []string{"end-fast-restore"}, trap.Beside())
	require.Nil(t, trap.Watch("journal.done.end-fast-restore")) // it was on its way
	require.Empty(t, trap.Beside())
}

// PD is marked while the volumes are bound, before or after that has begun: the first call of a kind is found either way.
func TestCells_FirstOfItsKind_CountsFromTheFirstStepOn(t *testing.T) {
	t.Parallel()
	_, touched, first := trace(Restore, []string{
		"journal.begin.bind-volumes", "pd.MarkRecovering", "kube.update.tidbclusters", "journal.begin.start-tikv", "kube.update.tidbclusters",
	})
	require.Equal(t, []string{"kube.update.tidbclusters"}, touched["start-tikv"])
	require.Equal(t, map[string]string{"pd.MarkRecovering": "bind-volumes", "kube.update.tidbclusters": "bind-volumes"}, first)
	trap := NewTrap(Cell{Position: Suspended, Step: "bind-volumes", Point: "pd.MarkRecovering", since: from("bind-volumes", true)}, func(syscall.Signal) {})
	require.Nil(t, trap.Watch("journal.begin.mark-recovering"))
	require.NotNil(t, trap.Watch("pd.MarkRecovering"), "the step has not begun in this run")
}

// A lock has no run: what is asked of each snapshot right before its call decides. One that was suspended among its calls,
// and continues after another command has finished the set, or made it longer, changes nothing any more.
func TestLock_Suspended_LeavesWhatAnotherHasLocked(t *testing.T) { //nolint:tparallel // the parts lock one backup
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	w := startWorld(ctx, t)
	s := w.scene(Lock)
	require.NoError(t, s.prepare(ctx), "%s", &w.out)
	lock := func(until string) []string {
		return []string{"lock", s.name, "--mode", ebs.LockGovernance, "--until", until}
	}
	for _, row := range []struct{ suspended, by string }{
		{"2031-01-01T00:00:00Z", "2031-01-01T00:00:00Z"}, {"2035-01-01T00:00:00Z", lockedUntil},
	} {
		t.Run(row.suspended, func(t *testing.T) { // the second makes longer what the first has locked
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			p, _, end, err := s.asleep(ctx, Cell{Position: Suspended, Point: "ec2.LockSnapshot"}, lock(row.suspended))
			defer end(cancel)
			require.NoError(t, err, "%s", &w.out)
			require.NoError(t, wait.For(ctx, stopTime))
			require.NoError(t, s.succeeds(ctx, lock(row.by)...), "%s", &w.out)
			before, err := s.locks(ctx)
			require.NoError(t, err)
			p.wake()
			require.Zero(t, p.code, p.out.String())
			after, err := s.locks(ctx)
			require.NoError(t, err)
			require.ElementsMatch(t, before, after)
		})
	}
	require.NoError(t, s.verifyLocked(ctx), "%s", &w.out)
}
