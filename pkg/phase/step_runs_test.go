package phase_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/phase"
)

// What a dead process was doing is not what the one that resumes its run does.
func TestStepRuns_ResumedRun_StepsOfTheDeadProcessHaveEnded(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	got := phase.StepRuns([]phase.Record{
		{Type: phase.RecordRun, Time: at(0)},
		{Type: phase.RecordBegin, Step: "lock", Time: at(1)}, {Type: phase.RecordDone, Step: "lock", Time: at(2)},
		{Type: phase.RecordBegin, Step: "cut", Time: at(3)}, {Type: phase.RecordIntent, Step: "cut", Time: at(4)},
		{Type: phase.RecordResumed, Time: at(9)},
		{Type: phase.RecordUndo, Step: "cut", Time: at(10)}, {Type: phase.RecordUndoFail, Step: "cut", Time: at(11), Error: "no"},
		{Type: phase.RecordBegin, Step: "cut", Time: at(12)},
	})
	require.Equal(t, []phase.StepRun{
		{Step: "lock", Begin: at(1), End: at(2)},
		{Step: "cut", Begin: at(3), End: at(4), Died: true},
		{Step: "cut", Undo: true, Begin: at(10), End: at(11), Failed: true, Error: "no"},
		{Step: "cut", Begin: at(12)},
	}, got)
	require.Empty(t, phase.StepRuns([]phase.Record{{Type: phase.RecordResumed}}), "a journal whose first records are lost")
}
