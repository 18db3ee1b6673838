package hold

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// PD is the part of the placement driver that a hold needs.
type PD interface {
	pd.Members
	pd.Scheduling
	pd.GC
	// Tasks lists log backups, each of which leaves a safe point of br's for a while when it is started.
	Tasks(ctx context.Context) ([]pd.Task, error)
}

// Config configures a hold. Cluster, Run and Stores are required.
type Config struct {
	Cluster cluster.Name
	Run     cluster.RunID
	Stores  []Target
	// Lease is how long everything stays held after the process dies; renewed every third of it. Whole seconds, at
	// least 3s; zero is 30s.
	Lease time.Duration
	// Beat overrides how often everything is renewed: a process that cuts under this hold waits for two renewals before
	// it trusts its cut.
	Beat time.Duration
	// MaxHold is the budget from the first pause to the release; zero is 2 min.
	MaxHold time.Duration
	// Budget is the name of MaxHold in errors; empty is --max-hold.
	Budget string
	// Grace is how long a broken hold waits for Release before it releases the cluster itself; zero is 5s.
	Grace time.Duration
	// Command is the command that releases the cluster if Release cannot; empty is "tisnap release CLUSTER".
	Command string
	Log     *zap.Logger
	// Fence keeps a process that may have lost its lock from pausing anything; nil for a hold without a lock.
	Fence fenced.Fence
}

// Target is a store to hold.
type Target struct {
	ID      cluster.StoreID
	Address string
}

// Hold is one hold on one cluster. One goroutine calls its methods in order: Connect, PauseScheduling, PauseStores,
// PauseGC, then Context and Prove around the cut, and Release on every exit path.
type Hold struct {
	cfg    Config
	pd     PD
	tikv   tikv.Holder
	log    *zap.Logger
	parts  timings
	asking pauseCalls

	mu        sync.Mutex
	stores    []*store
	paused    []string         // schedulers that we paused
	foreign   map[string]bool  // schedulers that others had paused
	items     []string         // config items that we override
	theirs    []string         // config items that others override with our value
	still     bool             // schedulers and limits were read back once
	safePoint cluster.TS       // 0 while GC is not held
	pdTill    time.Time        // when the pauses in PD expire at the latest, unless renewed
	regions   []cluster.Region // as reported by the stores once settled
	started   time.Time        // of the first pause
	broken    error            // first reason
	lost      chan struct{}    // closed when broken
	released  bool
	proven    bool         // by the stores, when their leases were ended
	seen      *observation // of another process's hold; nil if this one holds

	keeper   context.CancelFunc // stops keep
	keeping  sync.WaitGroup
	guarded  context.CancelFunc // stops guard
	guarding sync.WaitGroup
}

// New returns a hold that holds nothing yet.
func New(cfg Config, p PD, t tikv.Holder) (*Hold, error) {
	if len(cfg.Stores) == 0 {
		return nil, failure.New(failure.Unready, "hold", cfg.Cluster.String(), "it has no TiKV store")
	}
	if cfg.Lease == 0 {
		cfg.Lease = 30 * time.Second
	}
	if cfg.MaxHold == 0 {
		cfg.MaxHold = 2 * time.Minute
	}
	if cfg.Budget == "" {
		cfg.Budget = "--max-hold"
	}
	if cfg.Grace == 0 {
		cfg.Grace = 5 * time.Second
	}
	if cfg.Lease < 3*time.Second {
		return nil, failure.New(failure.Usage, "hold", cfg.Cluster.String(), "a lease of %s is too short to be renewed",
			cfg.Lease)
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Fence == nil {
		cfg.Fence = new(fenced.None)
	}
	if cfg.Command == "" {
		cfg.Command = "tisnap release " + cfg.Cluster.String()
	}
	h := &Hold{cfg: cfg, log: cfg.Log, foreign: map[string]bool{}, lost: make(chan struct{})}
	if h.cfg.Beat <= 0 {
		h.cfg.Beat = h.renewal()
	}
	h.asking.fenced = h.fenced
	h.pd, h.tikv = pausingPD{p, &h.asking}, pausingStores{t, &h.asking}
	for _, target := range cfg.Stores {
		h.stores = append(h.stores, &store{target: target, fenced: h.fenced})
	}
	return h, nil
}

// Run returns the run that holds; for an observed hold, the other process's.
func (h *Hold) Run() cluster.RunID { return h.cfg.Run }

// Service returns the name of the GC safe point, also used as the caller of import suspensions.
func (h *Hold) Service() string { return servicePrefix + string(h.cfg.Run) }

// begin records the first pause and starts the keeper and the guard. Later calls do nothing.
func (h *Hold) begin(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.started.IsZero() {
		return
	}
	h.started = time.Now()
	base, stopKeeper := context.WithCancel(context.WithoutCancel(ctx))
	h.keeper = stopKeeper
	h.keeping.Go(func() { h.watchOver("renew", func() { h.keep(base) }) })
	watched, stopGuard := context.WithCancel(context.WithoutCancel(ctx))
	h.guarded = stopGuard
	h.guarding.Go(func() { h.watchOver("guard", func() { h.guard(watched) }) })
}

// watchOver runs a goroutine of the hold; its panic breaks the hold instead of killing the process, which has to
// release the cluster.
func (h *Hold) watchOver(what string, f func()) {
	err := func() (err error) {
		defer failure.Catch(&err, what)
		f()
		return nil
	}()
	if err != nil {
		h.breakWith(err)
	}
}

// Under runs f in a Context of the hold. If f fails and the hold has broken, it returns why the hold broke. It does not
// start f under a broken hold.
func (h *Hold) Under(ctx context.Context, f func(context.Context) error) error {
	if reason := h.reason(); reason != nil {
		return reason
	}
	ctx, cancel := h.Context(ctx)
	defer cancel()
	err := f(ctx)
	if reason := h.reason(); err != nil && reason != nil {
		return reason
	}
	return err
}

// Context returns a context that is cancelled when ctx is or when the hold breaks, with the reason as its cause. The
// returned function cancels it too, and is idempotent.
func (h *Hold) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	inner, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-h.lost:
			cancel(h.reason())
		case <-inner.Done():
		case <-done:
		}
	})
	return inner, sync.OnceFunc(func() {
		close(done)
		wg.Wait()
		cancel(context.Canceled)
	})
}

// Length returns the time since the first pause, or 0 if nothing was paused.
func (h *Hold) Length() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.started.IsZero() {
		return 0
	}
	return time.Since(h.started)
}

// Started returns when the first pause was requested; zero if none was.
func (h *Hold) Started() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.started
}

// renewal is how often leases are renewed: three times per lease.
func (h *Hold) renewal() time.Duration { return h.cfg.Lease / 3 }

// minCall is the minimum time before a call to a store counts as hanging.
const minCall = 5 * time.Second

// callLimit bounds a call that changes what a store holds: a hanging store must keep neither the others held nor
// Release from returning.
func (h *Hold) callLimit() time.Duration { return max(h.renewal(), minCall) }
