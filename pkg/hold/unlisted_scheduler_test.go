package hold_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/pd"
)

// forgetfulPD lists one scheduler less from a moment on, as PD does whose coordinator has just started again.
type forgetfulPD struct {
	hold.PD

	forgets atomic.Bool
}

func (p *forgetfulPD) Schedulers(ctx context.Context) ([]pd.Scheduler, error) {
	all, err := p.PD.Schedulers(ctx)
	if p.forgets.Load() && len(all) > 0 {
		all = slices.Delete(slices.Clone(all), 0, 1)
	}
	return all, err
}

// A scheduler that was paused and that PD no longer lists may run a moment later: the hold is not proven.
func TestProve_SchedulerThatPDNoLongerLists_IsBroken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := &forgetfulPD{PD: r.pd}
	cfg := hold.Config{Cluster: name, Run: "run-1", Lease: time.Minute, MaxHold: time.Minute}
	for _, s := range r.stores {
		cfg.Stores = append(cfg.Stores, hold.Target{ID: cluster.StoreID(s.ID()), Address: s.Addr()})
	}
	h, err := hold.New(cfg, p, r.tikv)
	require.NoError(t, err)
	ctx := within(t, 30*time.Second)
	require.NoError(t, r.acquire(ctx, h))
	require.NoError(t, h.Prove(ctx))
	p.forgets.Store(true)
	err = h.Prove(ctx)
	require.ErrorIs(t, err, hold.ErrBroken)
	require.ErrorContains(t, err, "PD no longer lists: balance-")
	require.Equal(t, failure.Unready, failure.KindOf(err))
	broken, err := h.Release(ctx)
	require.Error(t, broken)
	require.NoError(t, err)
}
