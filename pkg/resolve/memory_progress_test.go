package resolve_test

import (
	"context"
	"sync"
	"testing"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
	"github.com/tisnap/tisnap/pkg/resolve"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// memoryProgress keeps progress for the next run, and can end the one that writes it, as another run does that has taken the lock.
type memoryProgress struct {
	mu      sync.Mutex
	saved   resolve.Progress
	found   bool
	stopped bool
}

func (p *memoryProgress) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// Load implements resolve.ProgressStore.
func (p *memoryProgress) Load(context.Context) (resolve.Progress, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.saved, p.found, nil
}

// Save implements resolve.ProgressStore.
func (p *memoryProgress) Save(_ context.Context, saved resolve.Progress) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return failure.New(failure.Conflict, "write progress", "", "stopped")
	}
	p.saved, p.found = saved, true
	return nil
}

// Clear implements resolve.ProgressStore.
func (p *memoryProgress) Clear(context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.found = false
	return nil
}

func tikvBootstrap(ctx context.Context, l *lab) error {
	return tikvtest.BootstrapCluster(ctx, l.stores...)
}

func planOnly(t *testing.T, r *resolve.Resolver) error {
	t.Helper()
	return phase.New(phase.Config{Run: "plan", Journal: phase.NoJournal{}}).Run(within(t), r.PlanSteps("resolve data", resolve.StepOptions{}))
}
