package mvcc

import (
	"fmt"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

func lockedError(user []byte, l *lock) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{Locked: l.info(user)}
}

func conflictError(
	user, primary []byte, startTS uint64, w *write, commitTS uint64, reason kvrpcpb.WriteConflict_Reason,
) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{Conflict: &kvrpcpb.WriteConflict{
		StartTs: startTS, ConflictTs: w.startTS, ConflictCommitTs: commitTS, Key: user, Primary: primary, Reason: reason,
	}}
}

func existsError(user []byte) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{AlreadyExist: &kvrpcpb.AlreadyExist{Key: user}}
}

func abortError(what string, startTS uint64, user []byte) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{Abort: fmt.Sprintf("%s { start_ts: %d, key: %X }", what, startTS, user)}
}

func txnNotFoundError(primary []byte, startTS uint64) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{TxnNotFound: &kvrpcpb.TxnNotFound{StartTs: startTS, PrimaryKey: primary}}
}

// lockNotFoundError is the answer to a commit whose lock is gone and that did not commit before.
func lockNotFoundError(user []byte, startTS, commitTS uint64) *kvrpcpb.KeyError {
	return &kvrpcpb.KeyError{
		Retryable: fmt.Sprintf("Error(Txn(Error(Mvcc(Error(TxnLockNotFound { start_ts: TimeStamp(%d), "+
			"commit_ts: TimeStamp(%d), key: %X })))))", startTS, commitTS, user),
		TxnLockNotFound: &kvrpcpb.TxnLockNotFound{Key: user},
	}
}
