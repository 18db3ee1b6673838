package hold_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/hold"
	"github.com/tisnap/tisnap/pkg/wait"
)

// latePD is slow to carry out a pause, and carries it out also when its client has gone meanwhile, as a server does
// that has read the request.
type latePD struct {
	hold.PD
	arm     chan struct{} // closed: from now on
	asked   chan struct{} // closed at the first late pause
	once    sync.Once
	pausing sync.WaitGroup
}

const late = 400 * time.Millisecond

func (p *latePD) PauseScheduler(ctx context.Context, name string, ttl time.Duration) error {
	select {
	case <-p.arm:
	default:
		return p.PD.PauseScheduler(ctx, name, ttl)
	}
	done := make(chan error, 1)
	p.pausing.Go(func() {
		_ = wait.For(context.WithoutCancel(ctx), late) // how slow it is
		done <- p.PD.PauseScheduler(context.WithoutCancel(ctx), name, ttl)
	})
	p.once.Do(func() { close(p.asked) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A renewal that is under way when the hold is released must not pause a scheduler after it was resumed.
func TestRelease_RenewalUnderWay_IsNotCarriedOutAfterIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := &latePD{PD: r.pd, arm: make(chan struct{}), asked: make(chan struct{})}
	cfg := hold.Config{Cluster: name, Run: "run-1", Lease: lease, MaxHold: time.Minute}
	for _, s := range r.stores {
		cfg.Stores = append(cfg.Stores, hold.Target{ID: cluster.StoreID(s.ID()), Address: s.Addr()})
	}
	h, err := hold.New(cfg, p, r.tikv)
	require.NoError(t, err)
	require.NoError(t, r.acquire(within(t, 20*time.Second), h))
	close(p.arm)
	select {
	case <-p.asked:
	case <-within(t, 20*time.Second).Done():
		require.Fail(t, "no renewal")
	}
	_, err = h.Release(within(t, 20*time.Second))
	require.NoError(t, err)
	p.pausing.Wait()
	require.Empty(t, r.left(t))
}
