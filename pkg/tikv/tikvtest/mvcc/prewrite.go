package mvcc

import (
	"math"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// Prewrite locks the keys of a transaction. It changes all keys or none: any error in the response comes
// without mutations. Repeating it is harmless, also after the commit.
func Prewrite(r Reader, req *kvrpcpb.PrewriteRequest) (*kvrpcpb.PrewriteResponse, []Mutation) {
	p := &prewriter{txn: txn{r: r, startTS: req.StartVersion}, req: req}
	resp := &kvrpcpb.PrewriteResponse{}
	for i, m := range req.Mutations {
		keyErr := p.key(m, p.action(i))
		if keyErr == nil {
			continue
		}
		resp.Errors = append(resp.Errors, keyErr)
		if keyErr.Locked == nil {
			break // TiKV collects locks, so that all are resolved at once, and stops at any other error
		}
	}
	if len(resp.Errors) > 0 {
		return resp, nil
	}
	return resp, p.muts
}

type prewriter struct {
	txn
	req *kvrpcpb.PrewriteRequest
}

func (p *prewriter) action(i int) kvrpcpb.PrewriteRequest_PessimisticAction {
	if i < len(p.req.PessimisticActions) {
		return p.req.PessimisticActions[i]
	}
	return kvrpcpb.PrewriteRequest_SKIP_PESSIMISTIC_CHECK
}

func (p *prewriter) pessimistic() bool { return p.req.ForUpdateTs > 0 }

// key checks one mutation and locks its key.
func (p *prewriter) key(m *kvrpcpb.Mutation, action kvrpcpb.PrewriteRequest_PessimisticAction) *kvrpcpb.KeyError {
	encoded := EncodeKey(m.Key)
	mustHoldLock := p.pessimistic() && action == kvrpcpb.PrewriteRequest_DO_PESSIMISTIC_CHECK
	ttl := p.req.LockTtl
	switch l := loadLock(p.r, encoded); {
	case l != nil && l.startTS != p.startTS:
		if mustHoldLock {
			return p.unlessCommitted(encoded, abortError("PessimisticLockNotFound", p.startTS, m.Key))
		}
		return lockedError(m.Key, l)
	case l != nil && l.kind != kindPessimistic:
		return nil // prewritten before
	case l != nil:
		ttl = max(ttl, l.ttl) // a heart beat may have raised it
	case mustHoldLock:
		// The lock was lost (TiKV pipelines them); it is as good as held if nobody wrote since.
		if w, ts := seekWrite(p.r, encoded, math.MaxUint64); w != nil && ts >= p.startTS {
			return p.unlessCommitted(encoded, abortError("PessimisticLockNotFound", p.startTS, m.Key))
		}
	default:
		if keyErr := p.constraints(m, encoded, action); keyErr != nil {
			return p.unlessCommitted(encoded, keyErr)
		}
	}
	if keyErr := p.assertion(m, encoded); keyErr != nil {
		return keyErr
	}
	if m.Op != kvrpcpb.Op_CheckNotExists {
		p.lockKey(m, encoded, ttl)
	}
	return nil
}

// constraints looks for newer writes and, for Insert and CheckNotExists, for the key itself.
func (p *prewriter) constraints(
	m *kvrpcpb.Mutation, encoded []byte, action kvrpcpb.PrewriteRequest_PessimisticAction,
) *kvrpcpb.KeyError {
	limit, reason := p.startTS, kvrpcpb.WriteConflict_Optimistic
	switch {
	case p.pessimistic() && action != kvrpcpb.PrewriteRequest_DO_CONSTRAINT_CHECK:
		return nil
	case p.pessimistic():
		limit, reason = p.req.ForUpdateTs, kvrpcpb.WriteConflict_LazyUniquenessCheck
	case p.req.SkipConstraintCheck:
		return nil
	}
	w, ts := seekWrite(p.r, encoded, math.MaxUint64)
	if w == nil {
		return nil
	}
	if ts == p.startTS && (w.kind == kindRollback || w.overlapped) {
		return conflictError(m.Key, p.req.PrimaryLock, p.startTS, w, ts, kvrpcpb.WriteConflict_SelfRolledBack)
	}
	if ts > limit {
		return conflictError(m.Key, p.req.PrimaryLock, p.startTS, w, ts, reason)
	}
	if m.Op == kvrpcpb.Op_Insert || m.Op == kvrpcpb.Op_CheckNotExists {
		if v, _ := seekVersion(p.r, encoded, math.MaxUint64); v != nil && v.kind == kindPut {
			return existsError(m.Key)
		}
	}
	return nil
}

// unlessCommitted drops the error if the transaction is committed on the key: the request is a late repeat.
func (p *prewriter) unlessCommitted(encoded []byte, keyErr *kvrpcpb.KeyError) *kvrpcpb.KeyError {
	if p.outcomeOf(encoded).committed {
		return nil
	}
	return keyErr
}

func (p *prewriter) assertion(m *kvrpcpb.Mutation, encoded []byte) *kvrpcpb.KeyError {
	if p.req.AssertionLevel == kvrpcpb.AssertionLevel_Off || m.Assertion == kvrpcpb.Assertion_None {
		return nil
	}
	w, commitTS := seekVersion(p.r, encoded, math.MaxUint64)
	exists := w != nil && w.kind == kindPut
	if exists == (m.Assertion == kvrpcpb.Assertion_Exist) {
		return nil
	}
	failed := &kvrpcpb.AssertionFailed{StartTs: p.startTS, Key: m.Key, Assertion: m.Assertion}
	if w != nil {
		failed.ExistingStartTs, failed.ExistingCommitTs = w.startTS, commitTS
	}
	return &kvrpcpb.KeyError{AssertionFailed: failed}
}

func (p *prewriter) lockKey(m *kvrpcpb.Mutation, encoded []byte, ttl uint64) {
	l := &lock{
		kind: kindOf(m.Op), primary: p.req.PrimaryLock, startTS: p.startTS, ttl: ttl, txnSize: p.req.TxnSize,
		forUpdateTS: p.req.ForUpdateTs, minCommitTS: p.req.MinCommitTs,
	}
	if l.kind == kindPut {
		l.short = p.store(encoded, p.startTS, m.Value)
	}
	p.put(CFLock, encoded, l.encode())
}

// store keeps a long value in CFDefault and returns nil, and returns a short one to be kept inline.
func (t *txn) store(encoded []byte, startTS uint64, val []byte) []byte {
	if len(val) > shortValueMax {
		t.put(CFDefault, versioned(encoded, startTS), val)
		return nil
	}
	return append([]byte{}, val...)
}
