package mvcc

import (
	"bytes"
	"math"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// Prewrite locks the keys of a transaction. It changes all keys or none: any error in the response comes
// without mutations. Repeating it is harmless, also after the commit.
//
// An asynchronous commit's locks, and the versions that a one-phase commit writes at once, get their timestamp from maxTS,
// the largest that the store has been read at (see finalTS); above the request's limit they fall back to two phases.
func Prewrite(r Reader, req *kvrpcpb.PrewriteRequest, maxTS uint64) (*kvrpcpb.PrewriteResponse, []Mutation) {
	return prewriteAs(r, req, maxTS, 0)
}

// prewriteAs is a prewrite, or the flush of that number of a pipelined transaction.
func prewriteAs(r Reader, req *kvrpcpb.PrewriteRequest, maxTS, generation uint64) (*kvrpcpb.PrewriteResponse, []Mutation) {
	p := &prewriter{txn: txn{r: r, startTS: req.StartVersion}, req: req, final: finalTS(req, maxTS), generation: generation}
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
	if req.TryOnePc {
		resp.OnePcCommitTs = p.final
	} else {
		resp.MinCommitTs = p.final
	}
	return resp, p.muts
}

type prewriter struct {
	txn
	req *kvrpcpb.PrewriteRequest
	// final is the commit ts of a one-phase commit, or the lowest that an asynchronous commit may have; 0 if the
	// transaction commits in two phases.
	final uint64
	// generation is the number of the flush; 0 is no flush.
	generation uint64
}

// finalTS is a timestamp above all that the store has been read at, so that no reader has missed the commit; 0 for an
// ordinary commit, and where the limit is passed.
func finalTS(req *kvrpcpb.PrewriteRequest, maxTS uint64) uint64 {
	if !req.UseAsyncCommit && !req.TryOnePc {
		return 0
	}
	ts := max(max(maxTS, req.StartVersion, req.ForUpdateTs)+1, req.MinCommitTs)
	if req.MaxCommitTs > 0 && ts > req.MaxCommitTs {
		return 0
	}
	return ts
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
	l := loadLock(p.r, encoded)
	switch {
	case l != nil && l.startTS != p.startTS:
		if mustHoldLock {
			return p.unlessCommitted(encoded, abortError("PessimisticLockNotFound", p.startTS, m.Key))
		}
		return lockedError(m.Key, l)
	case l != nil && l.kind != kindPessimistic:
		if !p.replaced(encoded, l) {
			p.prewritten(l)
			return nil
		}
	case l != nil:
		ttl = max(ttl, l.ttl) // a heart beat may have raised it
	case mustHoldLock:
		// The lock was lost (TiKV pipelines them); it is as good as held if there was no write since.
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
	switch {
	case m.Op == kvrpcpb.Op_CheckNotExists:
	case p.req.TryOnePc && p.final > 0:
		p.writeAtOnce(m, encoded, l != nil)
	default:
		p.lockKey(m, encoded, ttl)
	}
	return nil
}

// prewritten takes over the decision of the request that made the lock, of which this one is a repeat.
func (p *prewriter) prewritten(l *lock) {
	if l.async && p.final > 0 {
		p.final = max(p.final, l.minCommitTS)
		return
	}
	p.final = 0
}

// writeAtOnce commits one key without a lock.
func (p *prewriter) writeAtOnce(m *kvrpcpb.Mutation, encoded []byte, locked bool) {
	w := &write{kind: kindOf(m.Op), startTS: p.startTS}
	if w.kind == kindPut {
		w.short = p.store(encoded, p.startTS, m.Value)
	}
	p.put(CFWrite, versioned(encoded, p.final), w.encode())
	if locked {
		p.del(CFLock, encoded)
	}
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

// unlessCommitted drops the error if the transaction is committed on the key: the request is a late repeat, and gets the
// commit ts for its answer.
func (p *prewriter) unlessCommitted(encoded []byte, keyErr *kvrpcpb.KeyError) *kvrpcpb.KeyError {
	if o := p.outcomeOf(encoded); o.committed {
		if p.req.UseAsyncCommit || p.req.TryOnePc {
			p.final = o.commitTS
		}
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
		forUpdateTS: p.req.ForUpdateTs, minCommitTS: p.req.MinCommitTs, generation: p.generation,
	}
	if p.final > 0 {
		l.async, l.minCommitTS = true, p.final
		if bytes.Equal(m.Key, p.req.PrimaryLock) {
			l.secondaries = p.req.Secondaries
		}
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
