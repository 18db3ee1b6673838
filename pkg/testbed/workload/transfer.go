package workload

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/txnkv/transaction"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	retryPause = 20 * time.Millisecond
	// noteEvery-th transfer leaves a row of its own; a client keeps so many of them.
	noteEvery = 10
	notesKept = 20
	// manyEvery-th transfer has 3 to 5 accounts instead of 2.
	manyEvery = 10
)

// Run makes transfers at full speed until ctx ends, then lets those under way finish for a short while. It returns
// an error only if a row is not what it can be; a cluster that is away is waited for.
func (w *Workload) Run(ctx context.Context) error {
	c, err := w.Cluster(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Transfers under way outlive ctx by the grace period, so that few commits are left unanswered.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ended := make(chan struct{})
	errs := make([]error, w.cfg.Clients)
	var clients, grace sync.WaitGroup
	grace.Go(func() {
		defer stop()
		select {
		case <-ctx.Done():
		case <-ended:
			return
		}
		select {
		case <-time.After(w.cfg.Grace):
		case <-ended:
		}
	})
	for i := range w.cfg.Clients {
		t := &teller{workload: w, cluster: c, rand: rand.New(rand.NewPCG(uint64(w.cfg.Seed), uint64(i)))}
		clients.Go(func() {
			if errs[i] = t.run(ctx, work); errs[i] != nil {
				cancel() // a wrong row ends the run for all
			}
		})
	}
	clients.Wait()
	close(ended)
	grace.Wait()
	return errors.Join(errs...)
}

// teller is one client.
type teller struct {
	workload *Workload
	cluster  *Cluster
	rand     *rand.Rand
	notes    []cluster.TS // its own rows, oldest first
}

func (t *teller) run(ctx, work context.Context) error {
	for ctx.Err() == nil {
		err := t.once(work)
		switch {
		case failure.Is(err, failure.Corrupt):
			return err
		case err != nil && wait.For(ctx, retryPause) != nil:
			return nil //nolint:nilerr // the end of the load is how it should end
		}
	}
	return nil
}

// once makes one transfer and notes its outcome. An error means that it did not happen, or may have.
func (t *teller) once(ctx context.Context) error {
	defer t.workload.enter()()
	count := &t.workload.count
	kind := t.chooseKind()
	if kind == pipelined {
		// Two that wait for each other's locks do so for 40 s, as those of TiDB do.
		if !t.workload.pipelining.TryLock() {
			kind = ordinary
		} else {
			defer t.workload.pipelining.Unlock()
		}
	}
	txn, start, err := t.cluster.begin(ctx, kind == pipelined)
	if err != nil {
		count.retries.Add(1)
		return err
	}
	changes, err := t.plan(ctx, txn, kind)
	if err != nil || len(changes) == 0 {
		if err != nil {
			count.retries.Add(1)
		}
		return errors.Join(err, txn.Rollback())
	}
	noted := t.note(start, &changes)
	if kind == pipelined {
		defer func() { t.cluster.resolveLast(ctx, changes) }()
	}
	err = t.prepare(ctx, txn, kind, changes)
	if err == nil {
		err = writeKind(txn, kind, func(part []change) error { return write(txn, start, part, t.width(kind)) }, changes)
	}
	if err != nil {
		return errors.Join(err, txn.Rollback())
	}
	err = txn.Commit(ctx)
	switch {
	case err == nil:
		count.commits.Add(1)
		count.noteKind(kind)
		t.workload.history.committed(start, commitTS(txn), changes)
		if noted {
			t.keep(start)
		}
	case refused(err):
		count.conflicts.Add(1)
		return nil
	default:
		count.undetermined.Add(1)
		t.workload.history.unanswered(start, changes)
		t.notes = nil // the oldest may be gone
	}
	return err
}

// chooseCommit lets the transaction commit as TiDB's do: asynchronously, in one phase if one region has all its rows, or
// in two, with timestamps that the stores make for most, and PD for the others.
func (t *teller) chooseCommit(txn *transaction.KVTxn) {
	kind := t.rand.IntN(4)
	txn.SetEnableAsyncCommit(kind > 0)
	txn.SetEnable1PC(kind > 1)
	txn.SetCausalConsistency(kind == 3)
}

// plan reads some accounts and takes from the first what it gives to the others.
func (t *teller) plan(ctx context.Context, txn *transaction.KVTxn, kind kind) ([]change, error) {
	n := 2
	if t.rand.IntN(manyEvery) == 0 {
		n = 3 + t.rand.IntN(3)
	}
	if kind == large {
		n = min(largeTransfer, t.workload.accounts()/2)
	}
	var keys [][]byte
	chosen := map[int]bool{}
	for len(keys) < n {
		if i := t.workload.account(t.rand); !chosen[i] {
			chosen[i] = true
			keys = append(keys, []byte(accountKey(i)))
		}
	}
	changes, err := readAccounts(ctx, txn, keys)
	if err != nil {
		return nil, err
	}
	each := changes[0].balance / int64(n-1)
	if each == 0 {
		return nil, nil
	}
	transfer(changes, 1+t.rand.Int64N(min(each, 100)))
	return changes, nil
}

// transfer gives so much from the first account to each other.
func transfer(changes []change, each int64) {
	changes[0].balance -= each * int64(len(changes)-1)
	for i := range changes[1:] {
		changes[i+1].balance += each
	}
}

// readAccounts reads the accounts as they are before a change.
func readAccounts(ctx context.Context, txn *transaction.KVTxn, keys [][]byte) ([]change, error) {
	entries, err := txn.BatchGet(ctx, keys, kv.WithReturnCommitTS())
	if err != nil {
		return nil, err
	}
	changes := make([]change, len(keys))
	for i, key := range keys {
		entry, ok := entries[string(key)]
		if !ok {
			return nil, failure.New(failure.Corrupt, "read account", string(key), "it is missing at %d", txn.StartTS())
		}
		row, err := decodeRow(entry.Value)
		if err != nil {
			return nil, failure.Wrap(err, failure.Corrupt, "read account", string(key))
		}
		changes[i] = change{
			key: string(key), balance: row.Balance, prev: row.Writer, prevCommit: cluster.TS(entry.CommitTS),
		}
	}
	return changes, nil
}

// hotFor is after how many commits the accounts that transfers are made between move on by half their number.
const hotFor = 400

// accounts is how many accounts transfers are made between at the moment.
func (w *Workload) accounts() int {
	if w.cfg.Hot == 0 {
		return w.cfg.Accounts
	}
	return min(w.cfg.Hot, w.cfg.Accounts)
}

// account chooses one of the accounts that transfers are made between at the moment.
func (w *Workload) account(r *rand.Rand) int {
	if w.cfg.Hot == 0 || w.cfg.Hot >= w.cfg.Accounts {
		return r.IntN(w.cfg.Accounts)
	}
	first := int(w.count.commits.Load()/hotFor) * (w.cfg.Hot / 2)
	return (first + r.IntN(w.cfg.Hot)) % w.cfg.Accounts
}

// note adds a row about the transfer now and then, and takes the client's oldest one away.
func (t *teller) note(start cluster.TS, changes *[]change) bool {
	if t.rand.IntN(noteEvery) != 0 {
		return false
	}
	*changes = append(*changes, change{key: transferKey(start), balance: int64(len(*changes))})
	if len(t.notes) >= notesKept {
		*changes = append(*changes, change{key: transferKey(t.notes[0]), gone: true, prev: t.notes[0]})
	}
	return true
}

func (t *teller) keep(start cluster.TS) {
	if len(t.notes) >= notesKept {
		t.notes = slices.Delete(t.notes, 0, 1)
	}
	t.notes = append(t.notes, start)
}

// write puts the changes into the transaction, in rows of at least so many bytes.
func write(txn *transaction.KVTxn, start cluster.TS, changes []change, width int) error {
	for _, c := range changes {
		var err error
		if c.gone {
			err = txn.Delete([]byte(c.key))
		} else {
			err = txn.Set([]byte(c.key), padded(Row{Balance: c.balance, Writer: start}.encode(c.key), width))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func commitTS(txn *transaction.KVTxn) cluster.TS { return cluster.TS(txn.CommitTS()) }

// refused reports whether the commit certainly did not happen. All other errors may hide a commit.
func refused(err error) bool {
	if tikverr.IsErrorUndetermined(err) {
		return false
	}
	var latch *tikverr.ErrWriteConflictInLatch
	return tikverr.IsErrWriteConflict(err) || tikverr.IsErrKeyExist(err) || errors.As(err, &latch)
}
