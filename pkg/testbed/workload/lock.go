package workload

import (
	"context"
	"fmt"
	"time"

	"github.com/tikv/client-go/v2/kv"

	"github.com/tisnap/tisnap/pkg/failure"
)

// LockAccounts begins a pessimistic transaction that locks these accounts and does nothing more, as a client does that
// waits for a person: its locks do not hold the resolved ts back. They stay until release, which rolls it back.
func (c *Cluster) LockAccounts(ctx context.Context, accounts ...int) (release func() error, err error) {
	const op = "lock accounts"
	txn, err := c.store.Begin()
	if err != nil {
		return nil, failure.Wrap(err, failure.Unknown, op, "")
	}
	txn.SetPessimistic(true)
	keys := make([][]byte, len(accounts))
	for i, n := range accounts {
		keys[i] = []byte(accountKey(n))
	}
	if err := txn.LockKeys(ctx, kv.NewLockCtx(txn.StartTS(), kv.LockAlwaysWait, time.Now()), keys...); err != nil {
		_ = txn.Rollback() // the error is the lock's
		return nil, failure.Wrap(err, failure.Unknown, op, fmt.Sprint(accounts))
	}
	return txn.Rollback, nil
}
