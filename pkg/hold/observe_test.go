package hold_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// beating is a hold that another process can watch.
func beating(c *hold.Config) { c.Lease, c.Beat = 30*time.Second, 300*time.Millisecond }

func (r *rig) observing() hold.Config {
	cfg := hold.Config{Cluster: name, Lease: lease}
	for _, s := range r.stores {
		cfg.Stores = append(cfg.Stores, hold.Target{ID: cluster.StoreID(s.ID()), Address: s.Addr()})
	}
	return cfg
}

func (r *rig) observe(ctx context.Context) (*hold.Hold, error) {
	return hold.Observe(ctx, r.observing(), r.pd, r.tikv)
}

// observed is a cluster under one process's hold that another one watches.
func observed(t *testing.T) (r *rig, theirs, seen *hold.Hold) {
	t.Helper()
	r, theirs = held(t, beating)
	seen, err := r.observe(within(t, 20*time.Second))
	require.NoError(t, err)
	t.Cleanup(seen.Disconnect)
	return r, theirs, seen
}

func TestObserve_UnbrokenHold_IsProvenAndStaysTheirs(t *testing.T) {
	t.Parallel()
	r, theirs, seen := observed(t)
	before := r.left(t)
	require.NoError(t, seen.Prove(within(t, 20*time.Second)))
	require.True(t, seen.Proven())
	for range 2 {
		broke, err := seen.Release(within(t, 5*time.Second))
		require.NoError(t, broke)
		require.NoError(t, err)
	}
	seen.Disconnect()
	require.ElementsMatch(t, before, r.left(t), "what is theirs stays held")
	require.NoError(t, theirs.Prove(within(t, 5*time.Second)))
	broke, err := theirs.Release(within(t, 10*time.Second))
	require.NoError(t, broke, "their leases were valid to the end")
	require.NoError(t, err)
	r.requireFree(t)
}

func TestObserve_NoHold_IsUnready(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.observe(within(t, 10*time.Second))
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "no process holds")
}

// PingCAP's br renews its safe point whatever became of its leases: it proves nothing.
func TestObserve_HoldOfBR_IsUnready(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := within(t, 10*time.Second)
	_, err := r.pd.HoldGC(ctx, "br-5f1c", 1, time.Minute)
	require.NoError(t, err)
	_, err = r.observe(ctx)
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "br-5f1c")
	require.NotEmpty(t, failure.HintOf(err))
}

// What breaks the other's hold during the cut breaks the proof, by whatever way it can be seen.
func TestObserve_HoldThatBreaks_IsNotProven(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		harm func(t *testing.T, r *rig, theirs *hold.Hold)
		want string
	}{
		"a store forgets its lease": {
			func(_ *testing.T, r *rig, _ *hold.Hold) { r.stores[1].DropLease() }, "tisnap-run-1",
		},
		"they release": {
			func(t *testing.T, _ *rig, theirs *hold.Hold) {
				t.Helper()
				_, err := theirs.Release(within(t, 10*time.Second))
				require.NoError(t, err)
			}, "is gone",
		},
		"PD forgets the pauses": {
			func(t *testing.T, r *rig, _ *hold.Hold) { t.Helper(); require.NoError(t, r.server.Restart()) }, "",
		},
		"a scheduler is resumed": {
			func(t *testing.T, r *rig, _ *hold.Hold) {
				t.Helper()
				require.NoError(t, r.pd.ResumeScheduler(within(t, 5*time.Second), r.server.Schedulers()[0].Name))
			}, "",
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r, theirs, seen := observed(t)
			r.lettingGo(t, theirs)
			c.harm(t, r, theirs)
			err := seen.Prove(within(t, 60*time.Second))
			require.ErrorIs(t, err, hold.ErrBroken)
			require.ErrorContains(t, err, c.want)
			require.False(t, seen.Proven())
		})
	}
}

// lettingGo does what the owner of a hold does: it releases it as soon as the hold breaks.
func (r *rig) lettingGo(t *testing.T, h *hold.Hold) {
	t.Helper()
	ctx, cancel := h.Context(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ctx.Done()
		inner, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer stop()
		_, _ = h.Release(inner)
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// restartedPD reports from a moment on that a store was started later than it reported before.
type restartedPD struct {
	hold.PD

	restarted atomic.Uint64 // a store's id
}

func (p *restartedPD) Stores(ctx context.Context) ([]pd.Store, error) {
	all, err := p.PD.Stores(ctx)
	for i := range all {
		if uint64(all[i].ID) == p.restarted.Load() {
			all[i].StartedAt = all[i].StartedAt.Add(time.Second)
		}
	}
	return all, err
}

// A store that restarts within the cut breaks their hold at the next renewal; its start shows it as well.
func TestObserve_StoreThatRestarted_IsNotProven(t *testing.T) {
	t.Parallel()
	r, _ := held(t, beating)
	p := &restartedPD{PD: r.pd}
	seen, err := hold.Observe(within(t, 20*time.Second), r.observing(), p, r.tikv)
	require.NoError(t, err)
	t.Cleanup(seen.Disconnect)
	p.restarted.Store(r.stores[2].ID())
	err = seen.Prove(within(t, 60*time.Second))
	require.ErrorContains(t, err, "restarted at")
	require.ErrorContains(t, err, r.stores[2].Addr())
}

// Their process is suspended: it releases nothing and renews nothing, and its leases may run out unseen.
func TestObserve_HolderThatDied_IsNotFound(t *testing.T) {
	t.Parallel()
	r, theirs := held(t, beating)
	theirs.Die()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := r.observe(ctx)
	require.Equal(t, failure.Unready, failure.KindOf(err))
	require.ErrorContains(t, err, "the safe point tisnap-run-1 was not renewed")
}

// The safe point is renewed after the stores: while one does not answer its renewal it stays as it was.
func TestHold_StoreThatDoesNotAnswer_KeepsTheSafePointFromBeingRenewed(t *testing.T) {
	t.Parallel()
	r, _, seen := observed(t)
	r.fault(t, fault.Rule{Point: "tikv." + itoa(r.stores[0].ID()) + ".PrepareSnapshotBackup.UpdateLease", Position: fault.Stall})
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	require.Error(t, seen.Prove(ctx), "nothing proves that the store still holds")
	require.False(t, seen.Proven())
}
