package hold_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// prompt is far less than a hang lasts, and far more than a call takes.
const prompt = 90 * time.Second

// A store that hangs keeps neither Release, whatever its ctx, nor the other stores.
func TestRelease_StoreHangs_LetsTheOthersGoAndEnds(t *testing.T) {
	t.Parallel()
	r, h := held(t, func(c *hold.Config) { c.Lease = 12 * time.Second })
	r.fault(t, fault.Rule{Point: "tikv." + itoa(r.stores[1].ID()) + ".PrepareSnapshotBackup.Finish", Position: fault.Stall})
	released := make(chan error, 1)
	go func() {
		_, err := h.Release(context.WithoutCancel(t.Context())) // a caller that forgot a deadline
		released <- err
	}()
	require.Eventually(t, func() bool {
		return r.stores[0].LeaseLeft() == 0 && r.stores[2].LeaseLeft() == 0 && len(r.server.TTLConfigs()) == 0
	}, 4*time.Second, time.Millisecond, "before the call that hangs has ended")
	select {
	case err := <-released:
		require.Equal(t, failure.Held, failure.KindOf(err))
		require.ErrorContains(t, err, r.stores[1].Addr())
	case <-within(t, prompt).Done():
		require.Fail(t, "Release hangs with the store")
	}
	_, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, err, "by a new stream")
	r.requireFree(t)
}

// lateStreams lets streams that were opened before, and cancelled, reach the stores after the next ones.
type lateStreams struct {
	tikv.Holder

	late atomic.Int32 // how many are still to come
}

func (l *lateStreams) OpenLease(ctx context.Context, address string) (tikv.Lease, error) {
	if l.late.Add(-1) >= 0 {
		return nil, failure.New(failure.Conflict, "open prepare-snapshot stream", address, "the loop has been aborted by server")
	}
	return l.Holder.OpenLease(ctx, address)
}

// A stream of our own that was cancelled ends the one that is to finish the lease: another one is opened.
func TestRelease_OldStreamComesLate_FinishesByAnotherOne(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	late := &lateStreams{Holder: r.tikv}
	r.holder = late
	h := r.newHold(t)
	require.NoError(t, r.acquire(within(t, 20*time.Second), h))
	r.fault(t, fault.Rule{Point: "tikv." + itoa(r.stores[1].ID()) + ".PrepareSnapshotBackup.Finish", Code: "Unavailable"})
	late.late.Store(2)
	_, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, err)
	r.requireFree(t)
}

// A store that hangs while it is paused does not keep the others paused for the whole budget.
func TestPauseStores_StoreHangs_FailsSoonAndNamesIt(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"SuspendImportRPC", "PrepareSnapshotBackup.UpdateLease", "CheckPendingAdminOp"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			h := r.newHold(t)
			require.NoError(t, h.Connect(within(t, 10*time.Second))) // it asks, too
			r.fault(t, fault.Rule{Point: "tikv." + itoa(r.stores[2].ID()) + "." + call, Position: fault.Stall, Times: -1})
			err := h.PauseStores(within(t, 5*time.Minute))
			require.ErrorContains(t, err, r.stores[2].Addr())
			require.NotErrorIs(t, err, hold.ErrBudget)
			r.faults.Clear()
			_, err = h.Release(within(t, 10*time.Second))
			require.NoError(t, err)
			r.requireFree(t)
		})
	}
}

// PD that takes calls and never answers breaks the hold within one lease, and the stores are released all the same.
func TestHold_PDHangs_IsBrokenAndTheStoresAreReleased(t *testing.T) {
	t.Parallel()
	r, h := held(t, func(c *hold.Config) { c.Grace = 200 * time.Millisecond })
	r.fault(t, fault.Rule{Point: "pd.*", Position: fault.Stall, Times: -1})
	err := broken(t, h)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.NotErrorIs(t, err, hold.ErrBudget)
	// Its owner is stuck: the guard releases what answers.
	require.Eventually(t, func() bool {
		for _, s := range r.stores {
			if s.LeaseLeft() > 0 || s.ImportsDeniedFor() > 0 {
				return false
			}
		}
		return true
	}, prompt, 5*time.Millisecond)
	_, err = h.Release(within(t, time.Second))
	require.Equal(t, failure.Held, failure.KindOf(err))
	r.faults.Clear()
	_, err = h.Release(within(t, 10*time.Second))
	require.NoError(t, err)
	r.requireFree(t)
}

// The owner is in Release and stuck there: the guard tries beside it, in calls of its own.
func TestRelease_StuckInPD_TheGuardReleasesBesideIt(t *testing.T) {
	t.Parallel()
	r, h := held(t, func(c *hold.Config) { c.Grace, c.Lease = 300*time.Millisecond, time.Minute })
	require.NoError(t, r.pd.ResumeScheduler(within(t, 5*time.Second), r.server.Schedulers()[0].Name))
	r.fault(t, fault.Rule{Point: "pd.DropTTLConfig", Position: fault.Stall}) // the first call, which is Release's
	require.Error(t, h.Prove(within(t, 5*time.Second)))                      // breaks it
	released := make(chan error, 1)
	go func() {
		_, err := h.Release(context.WithoutCancel(t.Context()))
		released <- err
	}()
	require.Eventually(t, func() bool { return len(r.server.TTLConfigs()) == 0 }, 4*time.Second, time.Millisecond,
		"before the stalled call ends, which takes 5 s")
	<-released
	_, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, err)
	r.requireFree(t)
}

// The new leader has forgotten the pauses: the schedulers ran, so it is broken, and all is released.
func TestHold_PDLeaderMoves_IsBrokenAndReleased(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *pdtest.Config) { c.Members, c.ElectionTimeout = 3, time.Second })
	h := r.newHold(t)
	require.NoError(t, r.acquire(within(t, 20*time.Second), h))
	require.NoError(t, r.server.TransferLeader((r.server.Leader()+1)%3))
	require.ErrorContains(t, broken(t, h), "schedulers")
	require.NotEmpty(t, r.server.TTLConfigs(), "the limits stay lowered meanwhile")
	r.requireReleased(t, h)
}

// Without a leader PD cannot be asked; once there is one, everything is released.
func TestRelease_PDLeaderKilled_WaitsForTheNextOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *pdtest.Config) { c.Members, c.ElectionTimeout = 3, 2*time.Second })
	h := r.newHold(t, func(c *hold.Config) { c.Lease = time.Minute })
	require.NoError(t, r.acquire(within(t, 20*time.Second), h))
	r.server.KillMember(r.server.Leader())
	r.requireReleased(t, h)
}

// requireReleased releases until it is done, as a run does: a client of PD looks for the leader in its own time.
func (r *rig) requireReleased(t *testing.T, h *hold.Hold) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := h.Release(t.Context())
		return err == nil
	}, 40*time.Second, 50*time.Millisecond)
	r.requireFree(t)
}
