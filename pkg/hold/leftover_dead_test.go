package hold_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// storeError answers the calls to one store by an error.
type storeError struct {
	tikv.Holder

	address string
	err     error
}

func (s storeError) ResumeImport(ctx context.Context, address, caller string) (bool, error) {
	if address == s.address {
		return false, s.err
	}
	return s.Holder.ResumeImport(ctx, address, caller)
}

// A store that is dead for good must not keep a cluster held for ever: all that ends by time has ended there. What may still
// be held keeps it held, and so does an answer that is more than silence.
func TestReleaseLeftovers_StoreDeadForGood_IsLeftOutOnceAllHasRunOut(t *testing.T) {
	t.Parallel()
	for title, row := range map[string]struct {
		expires time.Duration // from now; zero is unknown
		refused bool          // the dead store's port is another's, who refuses
		holds   bool          // PD shows what a hold renews
		want    failure.Kind
	}{
		"all has run out":               {expires: -time.Second},
		"it may still be held":          {expires: time.Hour, want: failure.Held},
		"unknown":                       {want: failure.Held},
		"it answers that it is refused": {expires: -time.Second, refused: true, want: failure.Held},
		"PD shows a hold":               {expires: -time.Second, holds: true, want: failure.Held},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			r := dead(t)
			ctx := within(t, time.Minute)
			what := hold.DeadHolds{Cluster: name, All: true}
			if row.expires != 0 {
				what.Expires = time.Now().Add(row.expires)
			}
			if !row.holds { // it has run out there, as on the stores
				_, err := hold.ReleaseLeftovers(ctx, hold.DeadHolds{Cluster: name, All: true}, r.pd, r.tikv)
				require.NoError(t, err)
			}
			r.stores[1].Kill()
			stores := tikv.Holder(r.tikv)
			if row.refused {
				stores = storeError{Holder: r.tikv, address: r.stores[1].Addr(), err: failure.New(failure.Denied, "resume imports", "", "another cluster's certificate")}
			}
			done, err := hold.ReleaseLeftovers(ctx, what, r.pd, stores)
			require.Empty(t, r.left(t), "the rest is released")
			if row.want != failure.Unknown {
				require.Equal(t, row.want, failure.KindOf(err), "%v", err)
				require.Empty(t, done.Unreached)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []cluster.StoreID{cluster.StoreID(r.stores[1].ID())}, done.Unreached)
		})
	}
}

// A caller that stops waiting has learned nothing of the store.
func TestReleaseLeftovers_CallerGivesUp_IsHeldWhateverHasRunOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, cancel := context.WithCancel(within(t, time.Minute))
	what := hold.DeadHolds{Cluster: name, Expires: time.Now().Add(-time.Second)}
	_, err := hold.ReleaseLeftovers(ctx, what, r.pd, impatient{r.tikv, cancel})
	require.Equal(t, failure.Held, failure.KindOf(err), "%v", err)
}

// impatient is a caller that stops waiting while stores are silent.
type impatient struct {
	tikv.Holder

	cancel context.CancelFunc
}

func (g impatient) OpenLease(ctx context.Context, _ string) (tikv.Lease, error) {
	return nil, g.silence(ctx)
}

func (g impatient) ResumeImport(ctx context.Context, _, _ string) (bool, error) {
	return false, g.silence(ctx)
}

func (g impatient) silence(ctx context.Context) error {
	g.cancel()
	<-ctx.Done()
	return failure.New(failure.Limited, "ask", "", "no answer")
}
