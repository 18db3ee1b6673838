package hold

import (
	"context"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// pauseGrace is how long a pausing call continues after its caller stopped waiting.
const pauseGrace = time.Second

// pauseCalls tracks pausing calls in flight. Such a call outlives its caller: PD or a store may carry out an abandoned
// request after the release, which would leave the cluster paused until the lease expires. It continues for the grace,
// and releasing waits until all of them have ended.
type pauseCalls struct {
	mu    sync.Mutex
	under int
	idle  chan struct{} // closed when the last one has ended

	fenced func() error // checked right before each call; never nil
}

// asked makes a pausing call and returns its answer, or the cause if ctx ends first.
func asked[T any](ctx context.Context, p *pauseCalls, call func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan answer, 1)
	p.begin()
	go func() {
		defer p.end()
		defer cancel()
		var a answer
		func() {
			defer failure.Catch(&a.err, "pause")
			if a.err = p.fenced(); a.err == nil {
				a.value, a.err = call(inner)
			}
		}()
		done <- a
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		time.AfterFunc(pauseGrace, cancel)
		var none T
		return none, failure.Annotate(context.Cause(ctx), "wait for the answer", "")
	}
}

func (p *pauseCalls) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.under++; p.under == 1 {
		p.idle = make(chan struct{})
	}
}

func (p *pauseCalls) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.under--; p.under == 0 {
		close(p.idle)
	}
}

// drain waits until no pausing call is in flight, for at most twice the grace.
func (p *pauseCalls) drain() {
	p.mu.Lock()
	idle, under := p.idle, p.under
	p.mu.Unlock()
	if under == 0 {
		return
	}
	limit := time.NewTimer(2 * pauseGrace)
	defer limit.Stop()
	select {
	case <-idle:
	case <-limit.C:
	}
}

// pausingPD is a PD whose pausing calls run to completion.
type pausingPD struct {
	PD
	calls *pauseCalls
}

func (p pausingPD) PauseScheduler(ctx context.Context, name string, ttl time.Duration) error {
	return p.finish(ctx, func(ctx context.Context) error { return p.PD.PauseScheduler(ctx, name, ttl) })
}

func (p pausingPD) SetTTLConfig(ctx context.Context, items map[string]any, ttl time.Duration) error {
	return p.finish(ctx, func(ctx context.Context) error { return p.PD.SetTTLConfig(ctx, items, ttl) })
}

func (p pausingPD) HoldGC(ctx context.Context, service string, ts cluster.TS, ttl time.Duration) (cluster.TS, error) {
	return asked(ctx, p.calls,
		func(ctx context.Context) (cluster.TS, error) { return p.PD.HoldGC(ctx, service, ts, ttl) })
}

func (p pausingPD) finish(ctx context.Context, call func(context.Context) error) error {
	_, err := asked(ctx, p.calls, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// pausingStores are stores whose import suspensions run to completion. Leases need no such care: Finish uses the same
// stream as the renewals before it.
type pausingStores struct {
	tikv.Holder
	calls *pauseCalls
}

func (p pausingStores) SuspendImport(ctx context.Context, address, caller string, ttl time.Duration) (bool, error) {
	return asked(ctx, p.calls,
		func(ctx context.Context) (bool, error) { return p.Holder.SuspendImport(ctx, address, caller, ttl) })
}
