package restore

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// noneFast is an EC2 without fast snapshot restores: any other call panics.
type noneFast struct{ EBS }

func (noneFast) FastRestores(context.Context, []cluster.SnapshotID) ([]ebs.FastRestore, error) {
	return nil, nil
}

// A process that wakes up after another one has taken the run over ends no fast snapshot restore: EC2 is not even asked.
func TestFastRestore_LockLost_IsLeftToTheNextProcess(t *testing.T) {
	t.Parallel()
	mine := &journal.FastRestore{Snapshots: []cluster.SnapshotID{"snap-1"}, Zones: []cluster.Zone{"eu-west-1a"}}
	for name, lost := range map[string]func(r *run, s *phase.Scope) error{
		"at its end":  func(*run, *phase.Scope) error { return nil },
		"in the undo": func(*run, *phase.Scope) error { return errors.New("no room") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(Deps{Store: objstoretest.NewMemory(nil), EBS: noneFast{}}, Options{Target: cluster.Name{Namespace: "tidb", Name: "copy"}, Run: "r", FastRestore: true}, byRun)
			require.NoError(t, r.making.fast.Check(t.Context(), []Volume{{Snapshot: "snap-1", Zone: "eu-west-1a"}}, ebs.AccountQuotas{}))
			r.making.fast.Adopt(mine)
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
			require.Contains(t, sink.messages, volumes.KeptFast)
		})
	}
}

// texts keeps the messages of a run.
type texts struct{ messages []string }

func (w *texts) Emit(e phase.Event) { w.messages = append(w.messages, e.Message) }
