package earlyapply

import (
	"context"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/tikv"
	"github.com/tisnap/tisnap/pkg/wait"
)

// Waker wakes hibernating leaders.
type Waker interface {
	FirstLock(ctx context.Context, address string, r cluster.Region, ts cluster.TS) (cluster.TS, error)
}

const (
	// adoptTime is how long an awake leader may take to adopt the setting: a tick, one second by default. A leader just
	// elected does not count as applying early until its first tick.
	adoptTime = 2 * time.Second
	// wakeEvery is how often leaders that still apply early are woken: those of idle regions hibernate, and check the
	// setting only every five minutes.
	wakeEvery = 10 * time.Second
	maxWakes  = 64 // concurrent calls
)

// AwaitAdopted waits until no leader on these stores applies early, or ctx ends, and returns the stores where one still
// may. Leaders that do not adopt the setting are woken; regions lists the cluster's regions.
func AwaitAdopted(
	ctx context.Context, t tikv.EarlyApplier, w Waker, stores []Store,
	regions func(context.Context) ([]cluster.Region, error),
) Failures {
	left := Failures{}
	for _, s := range stores {
		left[s.ID] = failure.New(failure.Limited, "wait for early apply to end", name(s.ID), "it was not asked")
	}
	if wait.For(ctx, adoptTime) != nil {
		return left
	}
	next := time.Now()
	if wait.Until(ctx, wait.Every(interval), func() (bool, error) {
		askAll(ctx, t, stores, left)
		if len(left) == 0 {
			return true, nil
		}
		if now := time.Now(); !now.Before(next) {
			next = now.Add(wakeEvery)
			wake(ctx, w, stores, left, regions)
		}
		return false, nil
	}) != nil {
		return left
	}
	return nil
}

// askAll asks the remaining stores, and drops those whose leaders have all adopted the setting.
func askAll(ctx context.Context, t tikv.EarlyApplier, stores []Store, left Failures) {
	var mu sync.Mutex
	_ = parallel.Each(ctx, 0, left.Stores(), func(ctx context.Context, _ int, id cluster.StoreID) error {
		n, err := t.EarlyAppliers(ctx, find(stores, id).StatusAddress)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil && ctx.Err() != nil: // its previous answer is more useful
		case err != nil:
			left[id] = failure.Annotate(err, "wait for early apply to end", name(id))
		case n == 0:
			delete(left, id)
		default:
			left[id] = failure.New(failure.Limited, "wait for early apply to end", name(id),
				"%d of its leaders still apply early", n)
		}
		return nil
	})
}

// wake reads from each region led by one of the stores, which wakes a hibernating leader. Failures are retried in the
// next round.
func wake(
	ctx context.Context, w Waker, stores []Store, left Failures,
	regions func(context.Context) ([]cluster.Region, error),
) {
	all, err := regions(ctx)
	if err != nil {
		return
	}
	_ = parallel.Each(ctx, maxWakes, all, func(ctx context.Context, _ int, r cluster.Region) error {
		if _, sleeps := left[r.Leader.Store]; !sleeps {
			return nil
		}
		calling, cancel := context.WithTimeout(ctx, callLimit)
		defer cancel()
		_, _ = w.FirstLock(calling, find(stores, r.Leader.Store).Address, r, 1) // no transaction is as old as this
		return nil
	})
}
