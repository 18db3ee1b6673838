package hold_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/hold"
)

// fence is a lock that a test takes away.
type fence struct {
	fenced.None
	lost, replaced atomic.Bool
}

var errLost = errors.New("the lock may be another run's")

func (f *fence) Current() error {
	if f.lost.Load() {
		return errLost
	}
	return nil
}

func (f *fence) Holder(context.Context) fenced.Holder {
	if f.replaced.Load() {
		return fenced.HolderSameRun
	}
	return fenced.HolderThis
}

// calls are all that changed something on PD and the stores.
func (r *rig) calls() []string {
	all := slices.Clone(r.server.MutatingCalls())
	for _, s := range r.stores {
		all = append(all, s.MutatingCalls()...)
	}
	return all
}

// A process that wakes up in the middle of its hold, with a lock that may be another run's, pauses nothing more.
func TestHold_LockLostBetweenTwoPauses_PausesNothingMore(t *testing.T) {
	t.Parallel()
	for name, lostBefore := range map[string]int{"connecting": 0, "pausing schedulers": 1, "pausing stores": 2, "holding gc": 3} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, f := newRig(t), &fence{}
			h := r.newHold(t, func(c *hold.Config) { c.Fence, c.Lease = f, time.Minute })
			ts, err := r.pd.Now(within(t, 10*time.Second))
			require.NoError(t, err)
			ctx := within(t, time.Minute)
			for i, step := range []func(context.Context) error{
				h.Connect, h.PauseScheduling, h.PauseStores, func(ctx context.Context) error { return h.PauseGC(ctx, ts) },
			} {
				if i < lostBefore {
					require.NoError(t, step(ctx))
					continue
				}
				f.lost.Store(true)
				before := r.calls()
				require.ErrorIs(t, step(ctx), errLost)
				require.Equal(t, before, r.calls())
				break
			}
			_, err = h.Release(ctx)
			require.NoError(t, err)
			r.requireFree(t) // no run surely has the lock, and the leases run for a minute
		})
	}
}

// The leases of a process that slept for longer than them have run out: what is paused by then is another run's, and to
// release it would break that run's hold.
func TestRelease_LockLostAndLeasesOver_TouchesNothing(t *testing.T) {
	t.Parallel()
	f := &fence{}
	r, h := held(t, func(c *hold.Config) { c.Fence = f })
	f.lost.Store(true)
	require.Eventually(t, func() bool { return len(r.left(t)) == 0 }, 30*time.Second, 50*time.Millisecond, "nothing is renewed")
	require.Eventually(t, func() bool { // the guard of a hold that broke releases it at some time: it sees the same
		before := r.calls()
		broke, err := h.Release(within(t, 10*time.Second))
		require.NoError(t, err)
		require.ErrorIs(t, broke, hold.ErrBroken)
		return slices.Equal(before, r.calls())
	}, 30*time.Second, time.Second)
	require.False(t, h.Proven())
}

// Another process of the run has release what was left and holds the cluster again, by the same names.
func TestRelease_LockIsAnotherProcesss_LeavesItsHold(t *testing.T) {
	t.Parallel()
	f := &fence{}
	r, h := held(t, func(c *hold.Config) { c.Fence, c.Lease = f, time.Minute })
	before := r.left(t)
	require.NotEmpty(t, before)
	f.lost.Store(true)
	f.replaced.Store(true)
	broke, err := h.Release(within(t, 10*time.Second))
	require.NoError(t, err)
	require.ErrorIs(t, broke, hold.ErrBroken)
	require.ElementsMatch(t, before, r.left(t))
}
