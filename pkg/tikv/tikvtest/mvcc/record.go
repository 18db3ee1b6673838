package mvcc

import (
	"encoding/binary"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// shortValueMax is the longest value that is kept inside lock and write records.
const shortValueMax = 64

// kind is the type of a lock or write record; the letters are those of TiKV's own records.
type kind byte

const (
	kindPut         kind = 'P'
	kindDelete      kind = 'D'
	kindLock        kind = 'L'
	kindPessimistic kind = 'S' // locks only
	kindRollback    kind = 'R' // writes only
)

// changesData reports whether a record of this kind is a version of the key.
func (k kind) changesData() bool { return k == kindPut || k == kindDelete }

func (k kind) op() kvrpcpb.Op {
	switch k {
	case kindPut:
		return kvrpcpb.Op_Put
	case kindDelete:
		return kvrpcpb.Op_Del
	case kindPessimistic:
		return kvrpcpb.Op_PessimisticLock
	case kindRollback:
		return kvrpcpb.Op_Rollback
	default:
		return kvrpcpb.Op_Lock
	}
}

func kindOf(op kvrpcpb.Op) kind {
	switch op {
	case kvrpcpb.Op_Put, kvrpcpb.Op_Insert:
		return kindPut
	case kvrpcpb.Op_Del:
		return kindDelete
	default:
		return kindLock
	}
}

// lock is a record of CFLock.
type lock struct {
	kind        kind
	primary     []byte
	startTS     uint64
	ttl         uint64 // milliseconds from the physical part of startTS
	txnSize     uint64
	forUpdateTS uint64
	minCommitTS uint64
	generation  uint64 // of the flush of a pipelined transaction; 0 for the others
	short       []byte // nil: the value is in CFDefault, or there is none
	// async means that the transaction is committed as soon as all its keys are locked, at the largest minCommitTS of them.
	async       bool
	secondaries [][]byte // of an async primary: all other keys
}

func (l *lock) encode() []byte {
	b := append(make([]byte, 0, 64+len(l.primary)+len(l.short)), byte(l.kind))
	b = appendBytes(b, l.primary)
	for _, n := range []uint64{l.startTS, l.ttl, l.txnSize, l.forUpdateTS, l.minCommitTS, l.generation} {
		b = binary.AppendUvarint(b, n)
	}
	b = appendOptional(b, l.short)
	if !l.async {
		return append(b, 0)
	}
	b = binary.AppendUvarint(append(b, 1), uint64(len(l.secondaries)))
	for _, key := range l.secondaries {
		b = appendBytes(b, key)
	}
	return b
}

func decodeLock(b []byte) *lock {
	d := decoder{b: b}
	l := &lock{
		kind: kind(d.byte()), primary: d.bytes(), startTS: d.uvarint(), ttl: d.uvarint(), txnSize: d.uvarint(),
		forUpdateTS: d.uvarint(), minCommitTS: d.uvarint(), generation: d.uvarint(), short: d.optional(), async: d.byte() == 1,
	}
	if l.async {
		for n := min(d.uvarint(), uint64(len(d.b))); n > 0; n-- {
			l.secondaries = append(l.secondaries, d.bytes())
		}
	}
	return l
}

func (l *lock) info(user []byte) *kvrpcpb.LockInfo {
	return &kvrpcpb.LockInfo{
		PrimaryLock: l.primary, LockVersion: l.startTS, Key: user, LockTtl: l.ttl, TxnSize: l.txnSize,
		LockType: l.kind.op(), LockForUpdateTs: l.forUpdateTS, MinCommitTs: l.minCommitTS,
		UseAsyncCommit: l.async, Secondaries: l.secondaries,
	}
}

// expired reports whether the lock's time to live was over at now. A now of 0 never expires a lock.
func (l *lock) expired(now uint64) bool { return l.startTS>>physicalBits+l.ttl < now>>physicalBits }

// longValue reports whether the lock's value is in CFDefault.
func (l *lock) longValue() bool { return l.kind == kindPut && l.short == nil }

// write is a record of CFWrite.
type write struct {
	kind    kind
	startTS uint64
	// protected rollbacks are never collapsed: a late prewrite must find them.
	protected bool
	// overlapped means that another transaction with startTS equal to this commit ts was rolled back.
	overlapped bool
	short      []byte
}

const (
	flagProtected = 1 << iota
	flagOverlapped
)

func (w *write) encode() []byte {
	var flags byte
	if w.protected {
		flags |= flagProtected
	}
	if w.overlapped {
		flags |= flagOverlapped
	}
	b := append(make([]byte, 0, 16+len(w.short)), byte(w.kind), flags)
	return appendOptional(binary.AppendUvarint(b, w.startTS), w.short)
}

func decodeWrite(b []byte) *write {
	d := decoder{b: b}
	k, flags := kind(d.byte()), d.byte()
	return &write{
		kind: k, protected: flags&flagProtected != 0, overlapped: flags&flagOverlapped != 0,
		startTS: d.uvarint(), short: d.optional(),
	}
}

func appendBytes(b, v []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(v))), v...) }

// appendOptional keeps nil apart from empty: an empty value is a value.
func appendOptional(b, v []byte) []byte {
	if v == nil {
		return append(b, 0)
	}
	return appendBytes(append(b, 1), v)
}

// decoder reads records; what is missing reads as zero.
type decoder struct{ b []byte }

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		return 0
	}
	c := d.b[0]
	d.b = d.b[1:]
	return c
}

func (d *decoder) uvarint() uint64 {
	n, used := binary.Uvarint(d.b)
	d.b = d.b[max(used, 0):]
	return n
}

func (d *decoder) bytes() []byte {
	n := min(d.uvarint(), uint64(len(d.b)))
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) optional() []byte {
	if d.byte() == 0 {
		return nil
	}
	return d.bytes()
}
