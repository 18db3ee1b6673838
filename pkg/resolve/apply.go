package resolve

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/wait"
)

// The maximum time to apply logs.
const (
	applyBase = time.Hour
	applyEach = 500 * time.Millisecond
)

// awaitApply waits until every store has answered its call and applied the logs of all its peers.
func (r *recovery) awaitApply(ctx context.Context, s *phase.Scope) error {
	r.waited = true
	s.Expect(2*int64(len(r.cfg.Stores)), "answers")
	pending := &pendingStores{left: map[cluster.StoreID]string{}}
	for _, store := range r.cfg.Stores {
		pending.set(store, "makes its leaders lead and applies")
	}
	err := parallel.Each(ctx, 0, r.cfg.Stores, func(ctx context.Context, _ int, store cluster.StoreID) error {
		if err := r.awaitRecovered(ctx, store); err != nil {
			return err
		}
		s.Advance(1)
		pending.set(store, "applies")
		if err := r.awaitApplied(ctx, store); err != nil {
			return err
		}
		s.Advance(1)
		pending.set(store, "")
		return nil
	})
	if err != nil && ctx.Err() != nil {
		return failure.New(failure.Limited, "wait apply", r.cfg.Cluster.String(), "%w: %s", context.Cause(ctx), pending)
	}
	return err
}

// pendingStores is what each store still must do.
type pendingStores struct {
	mu   sync.Mutex
	left map[cluster.StoreID]string
}

func (p *pendingStores) set(store cluster.StoreID, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.left[store] = what; what == "" {
		delete(p.left, store)
	}
}

// String lists the stores.
func (p *pendingStores) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	items := make([]string, 0, len(p.left))
	for store, what := range p.left {
		items = append(items, fmt.Sprintf("store %s %s", store, what))
	}
	return strings.Join(items, ", ")
}

// awaitRecovered waits until the store's last RecoverRegion is answered. It is sent again if the store restarts.
func (r *recovery) awaitRecovered(ctx context.Context, store cluster.StoreID) error {
	for {
		last := r.last(store)
		if over, err := last.over(); over && err == nil {
			return nil
		}
		select {
		case <-last.ended:
		case <-ctx.Done():
			return failure.Annotate(context.Cause(ctx), "recover regions", r.stores.name(store))
		}
		if err := r.resend(ctx); err != nil {
			return err
		}
		if over, err := last.over(); over && err != nil {
			if wait.For(ctx, retryInterval) != nil {
				return failure.Annotate(err, "recover regions", r.stores.name(store))
			}
		}
	}
}

// awaitApplied polls one store until it has applied its logs. The run fails if the calls have failed for Config.Stall;
// a store that is applying may take as long as it needs.
func (r *recovery) awaitApplied(ctx context.Context, store cluster.StoreID) error {
	var failing time.Time // since when all calls have failed
	for {
		err := r.tikv.WaitApply(ctx, r.stores.address(store), store)
		if err == nil {
			return nil
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		if time.Since(failing) > r.cfg.Stall {
			return failure.New(failure.Limited, "wait apply", r.stores.name(store), "it has not answered for %s: %w",
				r.cfg.Stall, err).
				WithHint("look at the log of the store's pod, then %s", r.cfg.resumeHint())
		}
		if !failure.NotYet(err) || wait.For(ctx, retryInterval) != nil {
			return failure.Annotate(err, "wait apply", r.stores.name(store))
		}
		if err := r.resend(ctx); err != nil {
			return err
		}
	}
}
