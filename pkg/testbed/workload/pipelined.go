package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/tikv/client-go/v2/tikvrpc"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	// beatInterval is how often an open pipelined transaction reports its minimum commit ts. client-go does each
	// 10 s.
	beatInterval = 50 * time.Millisecond
	beatTimeout  = 2 * time.Second
)

// Pipelined is a pipelined transfer that has flushed its rows and is open, as that of a long bulk statement is. It lets the
// resolved ts rise meanwhile.
type Pipelined struct {
	// StartTS is that of its locks.
	StartTS cluster.TS

	workload *Workload
	txn      *transaction.KVTxn
	changes  []change
	stop     context.CancelFunc
	beats    sync.WaitGroup
}

// OpenPipelined begins one from the first of at least two accounts to the others, in two flushes. End it by Commit, before the
// workload is closed.
func (w *Workload) OpenPipelined(ctx context.Context, accounts ...int) (*Pipelined, error) {
	p, err := w.openPipelined(ctx, accounts)
	return p, failure.Wrap(err, failure.Unknown, "open pipelined transfer", fmt.Sprint(accounts))
}

func (w *Workload) openPipelined(ctx context.Context, accounts []int) (*Pipelined, error) {
	c, err := w.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	txn, start, err := c.begin(ctx, true)
	if err != nil {
		return nil, err
	}
	keys := make([][]byte, len(accounts))
	for i, n := range accounts {
		keys[i] = []byte(accountKey(n))
	}
	changes, err := readAccounts(ctx, txn, keys)
	if err == nil {
		transfer(changes, 1)
		half := len(changes) / 2
		err = errors.Join(flush(txn, start, changes[:half]), flush(txn, start, changes[half:]), txn.GetMemBuffer().FlushWait())
	}
	if err != nil {
		err = errors.Join(err, txn.Rollback())
		c.resolveLast(ctx, changes)
		return nil, err
	}
	p := &Pipelined{StartTS: start, workload: w, txn: txn, changes: changes}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	p.beats.Go(func() {
		for wait.For(beating, beatInterval) == nil {
			c.beat(beating, start)
		}
	})
	return p, nil
}

// resolveLast reads the last row of a pipelined transfer that has ended. client-go ends the locks of such a transaction from
// its first key to before its last one, by region: where the last is a region's first, its lock would stay until GC.
func (c *Cluster) resolveLast(ctx context.Context, changes []change) {
	last := ""
	for _, change := range changes {
		last = max(last, change.key)
	}
	if last != "" {
		_ = c.read(ctx, last) // as any reader may; the transfer has ended either way
	}
}

func flush(txn *transaction.KVTxn, start cluster.TS, changes []change) error {
	if err := write(txn, start, changes, 0); err != nil {
		return err
	}
	_, err := txn.GetMemBuffer().Flush(true)
	return err
}

// beat reports to all stores that the transaction will commit above now. One that misses it holds the resolved ts back
// until the next beat.
func (c *Cluster) beat(ctx context.Context, start cluster.TS) {
	now, err := c.Now(ctx)
	if err != nil {
		return
	}
	for _, store := range c.store.GetRegionCache().GetStoresByType(tikvrpc.TiKV) {
		_, _ = c.store.GetTiKVClient().SendRequest(ctx, store.GetAddr(), tikvrpc.NewRequest(tikvrpc.CmdBroadcastTxnStatus,
			&kvrpcpb.BroadcastTxnStatusRequest{TxnStatus: []*kvrpcpb.TxnStatus{{StartTs: uint64(start), MinCommitTs: uint64(now)}}}), beatTimeout)
	}
}

// Commit commits the transfer, and notes that it did so. Call it once.
func (p *Pipelined) Commit(ctx context.Context) error {
	p.stop()
	p.beats.Wait() // the commit ts is above all that was reported
	defer func() {
		if c, err := p.workload.Cluster(ctx); err == nil {
			c.resolveLast(ctx, p.changes)
		}
	}()
	if err := p.txn.Commit(ctx); err != nil {
		return failure.Wrap(err, failure.Unknown, "commit pipelined transfer", p.StartTS.String())
	}
	p.workload.history.committed(p.StartTS, commitTS(p.txn), slices.Clone(p.changes))
	return nil
}
