package mvcc

import (
	"bytes"
	"math"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// CheckTxnStatus decides a transaction by its primary key: committed, rolled back, alive, or rolled back by
// this call because its lock has expired by req.CurrentTs or because it has neither lock nor record.
func CheckTxnStatus(r Reader, req *kvrpcpb.CheckTxnStatusRequest) (*kvrpcpb.CheckTxnStatusResponse, []Mutation) {
	t := &txn{r: r, startTS: req.LockTs}
	encoded := EncodeKey(req.PrimaryKey)
	l := t.ownLock(encoded)
	if l == nil {
		return t.missingPrimary(req, encoded), t.muts
	}
	if req.VerifyIsPrimary && !bytes.Equal(l.primary, req.PrimaryKey) {
		return &kvrpcpb.CheckTxnStatusResponse{Error: &kvrpcpb.KeyError{
			PrimaryMismatch: &kvrpcpb.PrimaryMismatch{LockInfo: l.info(req.PrimaryKey)},
		}}, nil
	}
	if l.async && !req.ForceSyncCommit { // its secondaries decide, and no reader pushes it
		return &kvrpcpb.CheckTxnStatusResponse{LockTtl: l.ttl, LockInfo: l.info(req.PrimaryKey)}, nil
	}
	if !l.expired(req.CurrentTs) {
		return t.alivePrimary(req, encoded, l), t.muts
	}
	if l.kind == kindPessimistic && req.ResolvingPessimisticLock {
		t.del(CFLock, encoded)
		return &kvrpcpb.CheckTxnStatusResponse{Action: kvrpcpb.Action_TTLExpirePessimisticRollback}, t.muts
	}
	t.rollbackLock(encoded, l)
	return &kvrpcpb.CheckTxnStatusResponse{Action: kvrpcpb.Action_TTLExpireRollback}, t.muts
}

func (t *txn) missingPrimary(req *kvrpcpb.CheckTxnStatusRequest, encoded []byte) *kvrpcpb.CheckTxnStatusResponse {
	o := t.outcomeOf(encoded)
	switch {
	case o.committed:
		return &kvrpcpb.CheckTxnStatusResponse{CommitVersion: o.commitTS}
	case o.rolledBack:
		return &kvrpcpb.CheckTxnStatusResponse{}
	case !req.RollbackIfNotExist:
		return &kvrpcpb.CheckTxnStatusResponse{Error: txnNotFoundError(req.PrimaryKey, req.LockTs)}
	case req.ResolvingPessimisticLock:
		return &kvrpcpb.CheckTxnStatusResponse{Action: kvrpcpb.Action_LockNotExistDoNothing}
	}
	t.writeRollback(encoded, true, o.other)
	return &kvrpcpb.CheckTxnStatusResponse{Action: kvrpcpb.Action_LockNotExistRollback}
}

// alivePrimary pushes the transaction's commit ts above the reader that asks, so that it need not wait.
func (t *txn) alivePrimary(
	req *kvrpcpb.CheckTxnStatusRequest, encoded []byte, l *lock,
) *kvrpcpb.CheckTxnStatusResponse {
	resp := &kvrpcpb.CheckTxnStatusResponse{LockTtl: l.ttl}
	caller := req.CallerStartTs
	switch {
	case caller == math.MaxUint64:
		resp.Action = kvrpcpb.Action_MinCommitTSPushed
	case caller > 0 && l.minCommitTS > 0:
		if caller >= l.minCommitTS {
			l.minCommitTS = max(caller+1, req.CurrentTs)
			t.put(CFLock, encoded, l.encode())
		}
		resp.Action = kvrpcpb.Action_MinCommitTSPushed
	}
	resp.LockInfo = l.info(req.PrimaryKey)
	return resp
}

// TxnHeartBeat raises the time to live of a primary lock; it never lowers it.
func TxnHeartBeat(r Reader, req *kvrpcpb.TxnHeartBeatRequest) (*kvrpcpb.TxnHeartBeatResponse, []Mutation) {
	t := &txn{r: r, startTS: req.StartVersion}
	encoded := EncodeKey(req.PrimaryLock)
	l := t.ownLock(encoded)
	if l == nil {
		return &kvrpcpb.TxnHeartBeatResponse{Error: txnNotFoundError(req.PrimaryLock, req.StartVersion)}, nil
	}
	if l.ttl < req.AdviseLockTtl || l.minCommitTS < req.MinCommitTs {
		l.ttl = max(l.ttl, req.AdviseLockTtl)
		l.minCommitTS = max(l.minCommitTS, req.MinCommitTs)
		t.put(CFLock, encoded, l.encode())
	}
	return &kvrpcpb.TxnHeartBeatResponse{LockTtl: l.ttl}, t.muts
}

// CheckSecondaryLocks returns the locks of a transaction on the keys. At the first key without one it stops: the
// transaction is committed at the response's CommitTs or, if that is 0, rolled back by this call.
func CheckSecondaryLocks(
	r Reader, req *kvrpcpb.CheckSecondaryLocksRequest,
) (*kvrpcpb.CheckSecondaryLocksResponse, []Mutation) {
	t := &txn{r: r, startTS: req.StartVersion}
	resp := &kvrpcpb.CheckSecondaryLocksResponse{}
	for _, user := range req.Keys {
		encoded := EncodeKey(user)
		l := t.ownLock(encoded)
		if l != nil && l.kind != kindPessimistic {
			resp.Locks = append(resp.Locks, l.info(user))
			continue
		}
		if l != nil { // a pessimistic lock is not prewritten: the transaction cannot have been committed
			t.del(CFLock, encoded)
		}
		o := t.outcomeOf(encoded)
		if !o.committed && !o.rolledBack {
			t.writeRollback(encoded, true, o.other)
		}
		return &kvrpcpb.CheckSecondaryLocksResponse{CommitTs: o.commitTS}, t.muts
	}
	return resp, t.muts
}
