package restore

import (
	"context"
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/runlock"
)

// A process that wakes up after another one has taken the run over ends no fast snapshot restore: EC2 is not even asked.
func TestFastRestore_LockLost_IsLeftToTheNextProcess(t *testing.T) {
	t.Parallel()
	mine := map[cluster.Zone][]cluster.SnapshotID{"eu-west-1a": {"snap-1"}}
	for name, end := range map[string]struct {
		do      func(*run, *phase.Scope) error
		refused bool
	}{
		"at its end":  {func(r *run, s *phase.Scope) error { return r.endFast(t.Context(), s) }, true},
		"in the undo": {func(r *run, s *phase.Scope) error { return r.undoFast(t.Context(), s) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &run{fastMine: maps.Clone(mine)}
			r.fence = runlock.NewFence(objstoretest.NewMemory(nil), r.opts.Target, runlock.Owner{Run: "r"})
			r.fence.Lose(failure.New(failure.Conflict, "check lock", "tidb/copy", "run other has it"))
			journal := phase.NewStoreJournal(objstoretest.NewMemory(nil), "runs/r")
			err := phase.New(phase.Config{Run: "r", Journal: journal}).Run(t.Context(), []phase.Step{{
				Phase: phaseFast, Name: "end", Deadline: time.Minute,
				Do: func(_ context.Context, s *phase.Scope) error { return end.do(r, s) },
			}})
			require.Equal(t, mine, r.fastMine)
			if end.refused {
				require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
