package workload

import (
	"context"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	loadBatch   = 2000 // accounts in one transaction
	loadWriters = 16
	loadTries   = 10
)

// Load creates the accounts in big transactions and splits them into the regions asked for. It is called once.
func (w *Workload) Load(ctx context.Context) error {
	c, err := w.Cluster(ctx)
	if err != nil {
		return err
	}
	var keys [][]byte
	for i := 1; i < w.cfg.Regions; i++ {
		keys = append(keys, []byte(accountKey(i*w.cfg.Accounts/w.cfg.Regions)))
	}
	if len(keys) > 0 {
		if _, err := c.store.SplitRegions(ctx, keys, false, nil); err != nil {
			return failure.Wrap(err, failure.Unknown, "split accounts", "")
		}
	}
	var firsts []int
	for first := 0; first < w.cfg.Accounts; first += loadBatch {
		firsts = append(firsts, first)
	}
	err = parallel.Each(ctx, loadWriters, firsts, func(ctx context.Context, _, first int) error {
		return w.loadAccounts(ctx, c, first, min(first+loadBatch, w.cfg.Accounts))
	})
	return failure.Annotate(err, "load accounts", "")
}

// loadAccounts tries until the transaction is committed: the accounts must exist, and writing them again is harmless.
func (w *Workload) loadAccounts(ctx context.Context, c *Cluster, first, end int) error {
	var err error
	for range loadTries {
		if err = w.loadOnce(ctx, c, first, end); err == nil || ctx.Err() != nil {
			return err
		}
		w.count.retries.Add(1)
		if err := wait.For(ctx, retryPause); err != nil {
			return err
		}
	}
	return err
}

func (w *Workload) loadOnce(ctx context.Context, c *Cluster, first, end int) error {
	txn, start, err := c.begin(ctx, false)
	if err != nil {
		return err
	}
	changes := make([]change, 0, end-first)
	for i := first; i < end; i++ {
		changes = append(changes, change{key: accountKey(i), balance: w.cfg.Initial})
	}
	if err := write(txn, start, changes, 0); err != nil {
		return err
	}
	if err := txn.Commit(ctx); err != nil {
		return err
	}
	w.count.commits.Add(1)
	w.history.loaded(start, commitTS(txn), changes)
	return nil
}
