package restore

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
)

// A process that wakes up after another one has taken the run over ends no fast snapshot restore: EC2 is not even asked.
func TestFastRestore_LockLost_IsLeftToTheNextProcess(t *testing.T) {
	t.Parallel()
	mine := map[cluster.Zone][]cluster.SnapshotID{"eu-west-1a": {"snap-1"}}
	for name, lost := range map[string]func(r *run, s *phase.Scope) error{
		"at its end":  func(*run, *phase.Scope) error { return nil },
		"in the undo": func(*run, *phase.Scope) error { return errors.New("no room") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(Deps{Store: objstoretest.NewMemory(nil)}, Options{Target: cluster.Name{Namespace: "tidb", Name: "copy"}, Run: "r", FastRestore: true})
			r.fastMine = maps.Clone(mine)
			made := r.makeVolumesSteps()
			begin, end := made[0], made[len(made)-1]
			begin.Do, begin.Unfenced = func(_ context.Context, s *phase.Scope) error {
				r.runner.Fence().Lose(failure.New(failure.Conflict, "check lock", "tidb/copy", "run other has it"))
				return lost(r, s)
			}, "of the test"
			begin.Order.After, end.Order.After = nil, nil
			sink := &texts{}
			err := phase.New(phase.Config{Run: "r", Journal: phase.NoJournal{}, Fence: r.runner.Fence(), Sink: sink}).Run(t.Context(), []phase.Step{begin, end})
			require.ErrorContains(t, err, "run other has it")
			require.Equal(t, mine, r.fastMine)
			require.Contains(t, sink.said, keptFast)
		})
	}
}

// texts keeps what a run said.
type texts struct{ said []string }

func (w *texts) Emit(e phase.Event) { w.said = append(w.said, e.Message) }
