package workload

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Config is the size of a workload. PD is required.
type Config struct {
	PD       []string
	TLS      cluster.TLSFiles // of a cluster with TLS, on which Churn moves no leaders
	Accounts int              // 0 is 100,000
	Initial  int64            // balance of each account at the start; 0 is 1,000
	Clients  int              // concurrent transfers; 0 is 16
	Seed     int64
	Regions  int // to split the accounts into before the load; 0 or 1 leaves it to Churn
	// Hot is how many neighbouring accounts transfers are made between at a time; they move on with the commits, so that
	// others are at rest. 0 is all accounts.
	Hot int
	// Kinds makes a third of the transfers pessimistic, large or pipelined ones.
	Kinds bool
	Grace time.Duration // how long transfers under way may continue when Run ends; 0 is 2 s
	// Interval is the mean time between two changes that Churn makes; 0 is 200 ms.
	Interval time.Duration
}

// withDefaults fills the zero values.
func (c Config) withDefaults() Config {
	if c.Accounts == 0 {
		c.Accounts = 100_000
	}
	if c.Initial == 0 {
		c.Initial = 1000
	}
	if c.Clients == 0 {
		c.Clients = 16
	}
	if c.Grace == 0 {
		c.Grace = 2 * time.Second
	}
	if c.Interval == 0 {
		c.Interval = 200 * time.Millisecond
	}
	return c
}

// Counters count transactions since New.
type Counters struct {
	Commits      int64
	Conflicts    int64 // refused because of another transaction; tried again as a new one
	Retries      int64 // failed for another reason before the commit; tried again as a new one
	Undetermined int64 // commits that were not answered
	Splits       int64 // regions asked to split by Churn
	Moves        int64 // leaders asked to move by Churn
	// Of the commits, those of Config.Kinds.
	Pessimistic, Large, Pipelined int64
}

type counters struct {
	commits, conflicts, retries, undetermined, splits, moves, pessimistic, large, pipelined atomic.Int64
}

// Workload is the accounts of one cluster. Its methods are safe for concurrent use, but call Load before the rest.
type Workload struct {
	cfg     Config
	history *History
	count   counters
	// pipelining is held by the one client that makes a pipelined transfer.
	pipelining sync.Mutex

	mu      sync.Mutex
	cluster *Cluster
	closed  bool
	active  map[uint64]chan struct{} // transfers under way, by number
	number  uint64
}

// New makes a workload. It connects when it is first needed.
func New(cfg Config) (*Workload, error) {
	if len(cfg.PD) == 0 {
		return nil, failure.New(failure.Usage, "make workload", "", "no PD address")
	}
	cfg = cfg.withDefaults()
	if cfg.Accounts < 5 {
		return nil, failure.New(failure.Usage, "make workload", "", "%d accounts are too few: want 5", cfg.Accounts)
	}
	return &Workload{cfg: cfg, history: newHistory(), active: map[uint64]chan struct{}{}}, nil
}

// History is every commit so far.
func (w *Workload) History() *History { return w.history }

// Counters is what happened so far.
func (w *Workload) Counters() Counters {
	return Counters{
		Commits: w.count.commits.Load(), Conflicts: w.count.conflicts.Load(), Retries: w.count.retries.Load(),
		Undetermined: w.count.undetermined.Load(), Splits: w.count.splits.Load(), Moves: w.count.moves.Load(),
		Pessimistic: w.count.pessimistic.Load(), Large: w.count.large.Load(), Pipelined: w.count.pipelined.Load(),
	}
}

// Cluster is the connection to the cluster, made at the first call.
func (w *Workload) Cluster(ctx context.Context) (*Cluster, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, failure.New(failure.Usage, "connect workload", "", "it is closed")
	}
	if w.cluster == nil {
		c, err := ConnectTLS(ctx, w.cfg.PD, w.cfg.TLS)
		if err != nil {
			return nil, err
		}
		w.cluster = c
	}
	return w.cluster, nil
}

// Close ends the connection. Run, Load and Churn must have returned. It may be called again.
func (w *Workload) Close() error {
	w.mu.Lock()
	c := w.cluster
	w.cluster, w.closed = nil, true
	w.mu.Unlock()
	if c == nil {
		return nil
	}
	return c.Close()
}

// CopyAt reads all rows of the workload's cluster at ts.
func (w *Workload) CopyAt(ctx context.Context, ts cluster.TS) (*Copy, error) {
	c, err := w.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	return c.CopyAt(ctx, ts)
}

// Verify holds the workload's cluster at ts, which must have passed, against the history. Transfers may continue;
// it waits for those that are under way. The error is Corrupt if anything is not exactly right.
func (w *Workload) Verify(ctx context.Context, ts cluster.TS) (Result, error) {
	if err := w.Settle(ctx); err != nil {
		return Result{}, err
	}
	c, err := w.CopyAt(ctx, ts)
	if err != nil {
		return Result{}, err
	}
	r := w.history.Check(c, ts)
	return r, r.Err()
}

// VerifyRestored holds a restored cluster against the history at ts, the backup ts: no lock is left, and both
// what is there now and what a read at ts gives are exactly the rows at ts. Every transfer that began before ts
// must have ended: call Settle on the old cluster, or end Run.
func (h *History) VerifyRestored(ctx context.Context, c *Cluster, ts cluster.TS) (Result, error) {
	locks, err := c.LocksLeft(ctx)
	if err != nil {
		return Result{}, err
	}
	now, err := c.Now(ctx)
	if err != nil {
		return Result{}, err
	}
	var result Result
	for _, at := range []cluster.TS{ts, now} {
		rows, err := c.CopyAt(ctx, at)
		if err != nil {
			return Result{}, err
		}
		if result = h.Check(rows, ts); !result.OK() {
			break
		}
	}
	for _, l := range locks {
		result.fault(&result.Locks, "%s is locked by %s since %s", l.Key, l.Primary, l.StartTS.Time())
	}
	return result, result.Err()
}

// Settle waits for the transfers under way and then asks the cluster about those that were not answered.
func (w *Workload) Settle(ctx context.Context) error {
	w.mu.Lock()
	var ends []chan struct{}
	for _, end := range w.active {
		ends = append(ends, end)
	}
	w.mu.Unlock()
	for _, end := range ends {
		select {
		case <-end:
		case <-ctx.Done():
			return failure.Annotate(ctx.Err(), "wait for transfers", "")
		}
	}
	c, err := w.Cluster(ctx)
	if err != nil {
		return err
	}
	return w.history.settle(ctx, c)
}

// enter notes a transfer under way; the function returned ends it.
func (w *Workload) enter() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.number++
	n, end := w.number, make(chan struct{})
	w.active[n] = end
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.active, n)
		close(end)
	}
}
