package mvcc

import (
	"bytes"
	"math"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// txn is one command of one transaction: what it reads, and the mutations that it has made so far.
type txn struct {
	r       Reader
	startTS uint64
	muts    []Mutation
}

func loadLock(r Reader, encoded []byte) *lock {
	b, ok := r.Get(CFLock, encoded)
	if !ok {
		return nil
	}
	return decodeLock(b)
}

// ownLock returns the lock that this transaction holds on the key, or nil.
func (t *txn) ownLock(encoded []byte) *lock {
	if l := loadLock(t.r, encoded); l != nil && l.startTS == t.startTS {
		return l
	}
	return nil
}

// seekWrite returns the newest record at or below ts of any kind.
func seekWrite(r Reader, encoded []byte, ts uint64) (w *write, commitTS uint64) {
	r.Ascend(CFWrite, versioned(encoded, ts), afterVersions(encoded), func(k, v []byte) bool {
		_, commitTS = splitVersioned(k)
		w = decodeWrite(v)
		return false
	})
	return w, commitTS
}

// seekVersion returns the newest Put or Delete at or below ts.
func seekVersion(r Reader, encoded []byte, ts uint64) (w *write, commitTS uint64) {
	r.Ascend(CFWrite, versioned(encoded, ts), afterVersions(encoded), func(k, v []byte) bool {
		rec := decodeWrite(v)
		if !rec.kind.changesData() {
			return true
		}
		w = rec
		_, commitTS = splitVersioned(k)
		return false
	})
	return w, commitTS
}

// value is what a Put record stands for.
func value(r Reader, encoded []byte, startTS uint64, short []byte) []byte {
	if short != nil {
		return short
	}
	v, _ := r.Get(CFDefault, versioned(encoded, startTS))
	return v
}

// outcome is what became of a transaction on one key.
type outcome struct {
	committed  bool
	rolledBack bool
	commitTS   uint64
	// other is a foreign record whose commit ts is this transaction's start ts, where a rollback record would go.
	other *write
}

// outcomeOf looks for the transaction's commit or rollback record on the key.
func (t *txn) outcomeOf(encoded []byte) outcome {
	var o outcome
	t.r.Ascend(CFWrite, versioned(encoded, math.MaxUint64), append(versioned(encoded, t.startTS), 0),
		func(k, v []byte) bool {
			_, ts := splitVersioned(k)
			w := decodeWrite(v)
			switch {
			case w.startTS == t.startTS && w.kind == kindRollback:
				o.rolledBack = true
			case w.startTS == t.startTS:
				o.committed, o.commitTS = true, ts
			case ts == t.startTS && w.overlapped:
				o.rolledBack = true
			case ts == t.startTS:
				o.other = w
				return false
			default:
				return true
			}
			return false
		})
	return o
}

func (t *txn) put(cf CF, key, val []byte) {
	t.muts = append(t.muts, Mutation{CF: cf, Key: key, Value: val})
}

func (t *txn) del(cf CF, key []byte) {
	t.muts = append(t.muts, Mutation{CF: cf, Delete: true, Key: key})
}

// commitLock turns a lock into a commit record.
func (t *txn) commitLock(encoded []byte, l *lock, commitTS uint64) {
	w := &write{kind: l.kind, startTS: l.startTS, short: l.short}
	if w.kind == kindPessimistic {
		w.kind = kindLock // TiKV commits a lock that was never prewritten as one without data
	}
	at := versioned(encoded, commitTS)
	if old, ok := t.r.Get(CFWrite, at); ok && decodeWrite(old).kind == kindRollback {
		w.overlapped = true
	}
	t.put(CFWrite, at, w.encode())
	t.del(CFLock, encoded)
}

// rollbackLock removes the lock with its value and leaves a rollback record.
func (t *txn) rollbackLock(encoded []byte, l *lock) {
	t.del(CFLock, encoded)
	if l.longValue() {
		t.del(CFDefault, versioned(encoded, l.startTS))
	}
	// Only the primary of a pessimistic transaction can meet a late prewrite that checks nothing else.
	protected := l.forUpdateTS > 0 && bytes.Equal(l.primary, DecodeKey(encoded))
	t.writeRollback(encoded, protected, t.outcomeOf(encoded).other)
}

// writeRollback leaves a rollback record where the transaction has none.
func (t *txn) writeRollback(encoded []byte, protected bool, other *write) {
	at := versioned(encoded, t.startTS)
	if other != nil {
		w := *other
		w.overlapped = true
		t.put(CFWrite, at, w.encode())
		return
	}
	t.collapse(encoded)
	w := &write{kind: kindRollback, startTS: t.startTS, protected: protected}
	t.put(CFWrite, at, w.encode())
}

// collapse drops the rollback record just below this one: the newer one refuses the older transaction too.
func (t *txn) collapse(encoded []byte) {
	if t.startTS == 0 {
		return
	}
	w, ts := seekWrite(t.r, encoded, t.startTS-1)
	if w != nil && w.kind == kindRollback && !w.protected {
		t.del(CFWrite, versioned(encoded, ts))
	}
}

// commitKey commits one key; an error means that the transaction cannot be committed.
func (t *txn) commitKey(user []byte, commitTS uint64) *kvrpcpb.KeyError {
	encoded := EncodeKey(user)
	l := t.ownLock(encoded)
	if l == nil {
		if t.outcomeOf(encoded).committed {
			return nil
		}
		return lockNotFoundError(user, t.startTS, commitTS)
	}
	if commitTS < l.minCommitTS {
		return &kvrpcpb.KeyError{CommitTsExpired: &kvrpcpb.CommitTsExpired{
			StartTs: t.startTS, AttemptedCommitTs: commitTS, Key: user, MinCommitTs: l.minCommitTS,
		}}
	}
	t.commitLock(encoded, l, commitTS)
	return nil
}

// rollbackKey rolls one key back. If the transaction is committed there it returns the commit ts.
func (t *txn) rollbackKey(user []byte, protected bool) (commitTS uint64, committed bool) {
	encoded := EncodeKey(user)
	if l := t.ownLock(encoded); l != nil {
		t.rollbackLock(encoded, l)
		return 0, false
	}
	o := t.outcomeOf(encoded)
	switch {
	case o.committed:
		return o.commitTS, true
	case !o.rolledBack:
		t.writeRollback(encoded, protected, o.other)
	}
	return 0, false
}
