package crash

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The checks before a run ask EC2 by dry runs: a trap that sprang there would try a program that has done nothing yet.
func TestTrap_DryRunOfTheChecks_IsNotTheStepsCall(t *testing.T) {
	t.Parallel()
	const call = "ec2.CreateSnapshots"
	for name, cell := range map[string]Cell{
		"killed":    {Run: Backup, Step: "cut", Position: AfterEffect, Point: call, since: from("cut", true)},
		"suspended": {Run: Backup, Step: "cut", Position: Suspended, Point: call, since: from("cut", true)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent []syscall.Signal
			trap := NewTrap(cell, func(s syscall.Signal) { sent = append(sent, s) })
			require.Nil(t, trap.Watch(call), "the dry run comes before the journal")
			require.False(t, trap.Hit())
			require.Nil(t, trap.Watch("journal.begin.lock"))
			require.Nil(t, trap.Watch("ec2.DescribeVolumes"))
			rule := trap.Watch(call)
			require.NotNil(t, rule)
			require.True(t, trap.Hit())
			rule.Do()
			require.Len(t, sent, 1)
			require.Nil(t, trap.Watch(call), "it springs once")
		})
	}
}

// A call that every step makes counts only in the cell's own step.
func TestTrap_CallOfAnotherStep_IsLeftAlone(t *testing.T) {
	t.Parallel()
	const call = "tikv.*.PrepareSnapshotBackup"
	trap := NewTrap(Cell{Run: Backup, Step: "hold", Position: AfterEffect, Point: call, since: from("hold", false)}, func(syscall.Signal) {})
	require.Nil(t, trap.Watch("journal.begin.lock"))
	require.Nil(t, trap.Watch("tikv.1.PrepareSnapshotBackup"))
	require.Nil(t, trap.Watch("journal.begin.hold"))
	require.NotNil(t, trap.Watch("tikv.2.PrepareSnapshotBackup"))
}

// The process is stopped after the step, undoes it, and sleeps in the middle of that.
func TestTrap_SuspendedUndo_SleepsInTheUndoAlone(t *testing.T) {
	t.Parallel()
	const call = "ec2.DeleteSnapshot"
	var sent []syscall.Signal
	trap := NewTrap(Cell{Run: Backup, Step: "cut", Position: SuspendedUndo, Point: call}, func(s syscall.Signal) { sent = append(sent, s) })
	require.Nil(t, trap.Watch("journal.begin.cut"))
	require.Nil(t, trap.Watch(call), "of an earlier attempt")
	trap.Watch("journal.done.cut").Do()
	require.False(t, trap.Hit())
	trap.Watch(call).Do()
	require.Equal(t, []syscall.Signal{syscall.SIGTERM, syscall.SIGSTOP}, sent)
	require.True(t, trap.Hit())
	require.Nil(t, trap.Watch(call), "it springs once")
}
