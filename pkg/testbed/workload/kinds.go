package workload

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/txnkv/transaction"
)

// kind is how a transfer is made, beside how it commits.
type kind int

const (
	ordinary    kind = iota
	pessimistic      // locks its rows before it writes them
	large            // has very many rows, of all regions that transfers are made in
	pipelined        // flushes its rows to the stores before it commits, half of them earlier than the others
)

// largeTransfer is how many accounts a large transfer has at most.
const largeTransfer = 24

// chooseKind lets every third transfer be another than an ordinary one, if the workload has those.
func (t *teller) chooseKind() kind {
	if !t.workload.cfg.Kinds || t.rand.IntN(3) > 0 {
		return ordinary
	}
	return pessimistic + kind(t.rand.IntN(3))
}

// noteKind counts a transfer that was committed.
func (c *counters) noteKind(k kind) {
	switch k {
	case pessimistic:
		c.pessimistic.Add(1)
	case large:
		c.large.Add(1)
	case pipelined:
		c.pipelined.Add(1)
	case ordinary:
	}
}

// prepare makes the transfer one of its kind, before its rows are written.
func (t *teller) prepare(ctx context.Context, txn *transaction.KVTxn, k kind, changes []change) error {
	switch k {
	case pipelined: // commits in two phases
		slices.SortFunc(changes, func(a, b change) int { return strings.Compare(a.key, b.key) })
		return nil
	case pessimistic:
		txn.SetPessimistic(true)
		keys := make([][]byte, len(changes))
		for i, c := range changes {
			keys[i] = []byte(c.key)
		}
		slices.SortFunc(keys, slices.Compare) // so that the primary is the least key
		// At the start ts: a row that was written since it was read is a conflict.
		if err := txn.LockKeys(ctx, kv.NewLockCtx(txn.StartTS(), kv.LockNoWait, time.Now()), keys...); err != nil {
			return err
		}
	case ordinary, large:
	}
	t.chooseCommit(txn)
	return nil
}

// width makes the rows of every third large transfer wide.
func (t *teller) width(k kind) int {
	if k == large && t.rand.IntN(3) == 0 {
		return wideRowBytes
	}
	return 0
}

// writeKind puts the changes into the transaction.
func writeKind(txn *transaction.KVTxn, k kind, write func([]change) error, changes []change) error {
	if k != pipelined {
		return write(changes)
	}
	half := len(changes) / 2
	if err := write(changes[:half]); err != nil {
		return err
	}
	if _, err := txn.GetMemBuffer().Flush(true); err != nil {
		return err
	}
	return write(changes[half:])
}
