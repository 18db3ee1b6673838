package restore

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/journal"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/objstore/objstoretest"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/restore/volumes"
)

// askingKube and askingEC2 ask the lock before they change something, as the adapters do, and then do nothing.
type askingKube struct{ kube.Restorer }

func (askingKube) BindVolume(ctx context.Context, _ kube.RestoredVolume) error {
	return fenced.Check(ctx)
}

func (askingKube) StartTiKV(ctx context.Context, _ cluster.Name, _ ...kube.RestoredVolume) error {
	return fenced.Check(ctx)
}

type askingEC2 struct{ EBS }

func (askingEC2) CreateVolume(ctx context.Context, _ ebs.VolumeRequest) (ebs.Volume, error) {
	return ebs.Volume{ID: "vol-1"}, fenced.Check(ctx)
}

func (askingEC2) ModifyVolume(ctx context.Context, _ cluster.VolumeID, _ cluster.VolumeSpec) (ebs.Modification, error) {
	return ebs.Modification{}, fenced.Check(ctx)
}

// The engine's own ask trusts the last renewal. A lock that a person broke meanwhile, because they took the process for
// dead, is asked for before each of these calls.
func TestRun_LockBroken_CallsThatMakeSomethingAreNotSent(t *testing.T) {
	t.Parallel()
	for _, name := range []string{journal.StepCreateVolumes, journal.StepBindVolumes, stepStartTiKV, "modify-volumes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after := cluster.VolumeSpec{Type: "gp3", SizeGiB: 1}
			r := newRun(Deps{Store: objstoretest.NewMemory(nil), EBS: askingEC2{}, Kube: askingKube{}},
				Options{Target: cluster.Name{Namespace: "tidb", Name: "copy"}, Run: "r", After: after}, byRun)
			r.making.Begin(volumes.Plan{Volumes: []Volume{{ID: "vol-1", Snapshot: "snap-1", Zone: "eu-west-1a", After: &after}}})
			of := r.restoreSteps()
			step := of[slices.IndexFunc(of, func(s phase.Step) bool { return s.Name == name })]
			// The lock was never taken, so a read of it finds none, and nothing else in the step's context asks.
			step = phase.Step{Phase: "p", Name: "s", Deadline: time.Minute, Do: step.Do, ReadsLock: step.ReadsLock, Unfenced: "of the test"}
			err := phase.New(phase.Config{Run: "r", Journal: phase.NoJournal{}, Fence: r.runner.Fence()}).Run(t.Context(), []phase.Step{step})
			require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
			require.ErrorContains(t, err, "it was not taken")
		})
	}
}
