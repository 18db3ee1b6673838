package mvcc

import (
	"math"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// PessimisticLock locks keys before they are written, for all or none. It never waits: a key that another
// transaction holds is a KeyIsLocked error. Locking in spite of a conflict (force lock) is not supported.
func PessimisticLock(
	r Reader, req *kvrpcpb.PessimisticLockRequest,
) (*kvrpcpb.PessimisticLockResponse, []Mutation) {
	t := &txn{r: r, startTS: req.StartVersion}
	resp := &kvrpcpb.PessimisticLockResponse{}
	for _, m := range req.Mutations {
		found, keyErr := t.lockPessimistic(req, m)
		if keyErr != nil {
			return &kvrpcpb.PessimisticLockResponse{Errors: []*kvrpcpb.KeyError{keyErr}}, nil
		}
		if req.ReturnValues {
			resp.Values = append(resp.Values, found)
		}
		if req.ReturnValues || req.CheckExistence {
			resp.NotFounds = append(resp.NotFounds, found == nil)
		}
	}
	return resp, t.muts
}

// lockPessimistic locks one key and returns its newest value, nil if it has none.
func (t *txn) lockPessimistic(
	req *kvrpcpb.PessimisticLockRequest, m *kvrpcpb.Mutation,
) ([]byte, *kvrpcpb.KeyError) {
	encoded := EncodeKey(m.Key)
	held := loadLock(t.r, encoded)
	switch {
	case held != nil && held.startTS != t.startTS:
		return nil, lockedError(m.Key, held)
	case held != nil && held.kind != kindPessimistic:
		return nil, abortError("LockTypeNotMatch", t.startTS, m.Key)
	case held == nil:
		if keyErr := t.checkNewer(req, m.Key, encoded); keyErr != nil {
			return nil, keyErr
		}
	}
	var found []byte
	if w, _ := seekVersion(t.r, encoded, math.MaxUint64); w != nil && w.kind == kindPut {
		found = value(t.r, encoded, w.startTS, w.short)
	}
	if m.Assertion == kvrpcpb.Assertion_NotExist && found != nil {
		return nil, existsError(m.Key)
	}
	if req.LockOnlyIfExists && found == nil {
		return nil, nil
	}
	l := &lock{
		kind: kindPessimistic, primary: req.PrimaryLock, startTS: t.startTS, ttl: req.LockTtl,
		forUpdateTS: req.ForUpdateTs, minCommitTS: req.MinCommitTs,
	}
	if held != nil {
		l.ttl, l.forUpdateTS = max(l.ttl, held.ttl), max(l.forUpdateTS, held.forUpdateTS)
		l.minCommitTS = max(l.minCommitTS, held.minCommitTS)
	}
	t.put(CFLock, encoded, l.encode())
	return found, nil
}

// checkNewer refuses a lock on a key that was written after for_update_ts, or where the transaction is decided.
func (t *txn) checkNewer(req *kvrpcpb.PessimisticLockRequest, user, encoded []byte) *kvrpcpb.KeyError {
	w, ts := seekWrite(t.r, encoded, math.MaxUint64)
	if w == nil || ts < t.startTS {
		return nil
	}
	if o := t.outcomeOf(encoded); o.rolledBack || o.committed {
		return abortError("PessimisticLockRolledBack", t.startTS, user)
	}
	if ts > req.ForUpdateTs {
		return conflictError(user, req.PrimaryLock, t.startTS, w, ts, kvrpcpb.WriteConflict_PessimisticRetry)
	}
	return nil
}

// PessimisticRollback drops the transaction's pessimistic locks on the keys, or all in r without keys, that were
// taken at or below req.ForUpdateTs. It leaves no rollback record. Give it a reader Within the region.
func PessimisticRollback(
	r Reader, req *kvrpcpb.PessimisticRollbackRequest,
) (*kvrpcpb.PessimisticRollbackResponse, []Mutation) {
	t := &txn{r: r, startTS: req.StartVersion}
	for _, held := range locksToResolve(r, req.Keys, map[uint64]uint64{req.StartVersion: 0}) {
		if held.lock.kind == kindPessimistic && held.lock.forUpdateTS <= req.ForUpdateTs {
			t.del(CFLock, held.encoded)
		}
	}
	return &kvrpcpb.PessimisticRollbackResponse{}, t.muts
}
