package mvcc

import "github.com/pingcap/kvproto/pkg/kvrpcpb"

// Commit turns the transaction's locks on the keys into versions. It is idempotent, and changes all keys or none.
// A lock that is gone without a commit is a TxnLockNotFound that client-go retries as a new transaction.
func Commit(r Reader, req *kvrpcpb.CommitRequest) (*kvrpcpb.CommitResponse, []Mutation) {
	if req.CommitVersion <= req.StartVersion {
		return &kvrpcpb.CommitResponse{Error: abortError("InvalidTxnTso", req.StartVersion, nil)}, nil
	}
	t := &txn{r: r, startTS: req.StartVersion}
	for _, user := range req.Keys {
		if keyErr := t.commitKey(user, req.CommitVersion); keyErr != nil {
			return &kvrpcpb.CommitResponse{Error: keyErr}, nil
		}
	}
	return &kvrpcpb.CommitResponse{CommitVersion: req.CommitVersion}, t.muts
}

// BatchRollback rolls the keys back and leaves rollback records that refuse late prewrites. It is idempotent;
// if a key is committed it changes nothing and aborts.
func BatchRollback(r Reader, req *kvrpcpb.BatchRollbackRequest) (*kvrpcpb.BatchRollbackResponse, []Mutation) {
	t := &txn{r: r, startTS: req.StartVersion}
	for _, user := range req.Keys {
		if _, committed := t.rollbackKey(user, false); committed {
			return &kvrpcpb.BatchRollbackResponse{Error: abortError("Committed", req.StartVersion, user)}, nil
		}
	}
	return &kvrpcpb.BatchRollbackResponse{}, t.muts
}

// Cleanup rolls one key back if its lock has expired by req.CurrentTs, or in any case if that is 0.
// A committed key is reported by its commit ts.
func Cleanup(r Reader, req *kvrpcpb.CleanupRequest) (*kvrpcpb.CleanupResponse, []Mutation) {
	t := &txn{r: r, startTS: req.StartVersion}
	l := t.ownLock(EncodeKey(req.Key))
	if l != nil && req.CurrentTs > 0 && !l.expired(req.CurrentTs) {
		return &kvrpcpb.CleanupResponse{Error: lockedError(req.Key, l)}, nil
	}
	commitTS, committed := t.rollbackKey(req.Key, true)
	if committed {
		return &kvrpcpb.CleanupResponse{CommitVersion: commitTS}, nil
	}
	return &kvrpcpb.CleanupResponse{}, t.muts
}
