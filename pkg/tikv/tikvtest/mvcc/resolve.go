package mvcc

import (
	"math"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// ResolveLock commits or rolls back locks whose transactions are decided: those on req.Keys (lite), or all locks
// in r of the transaction or of req.TxnInfos. Locks of other transactions and keys without lock stay as they are.
// Give it a reader Within the region.
func ResolveLock(r Reader, req *kvrpcpb.ResolveLockRequest) (*kvrpcpb.ResolveLockResponse, []Mutation) {
	status := map[uint64]uint64{}
	for _, info := range req.TxnInfos {
		status[info.Txn] = info.Status
	}
	if len(req.TxnInfos) == 0 {
		status[req.StartVersion] = req.CommitVersion
	}
	var muts []Mutation
	for _, held := range locksToResolve(r, req.Keys, status) {
		t := &txn{r: r, startTS: held.lock.startTS}
		if commitTS := status[held.lock.startTS]; commitTS > 0 {
			t.commitLock(held.encoded, held.lock, commitTS)
		} else {
			t.rollbackLock(held.encoded, held.lock)
		}
		muts = append(muts, t.muts...)
	}
	return &kvrpcpb.ResolveLockResponse{}, muts
}

type heldLock struct {
	encoded []byte
	lock    *lock
}

func locksToResolve(r Reader, keys [][]byte, status map[uint64]uint64) []heldLock {
	if len(keys) == 0 {
		return locksIn(r, nil, nil, 0, func(_ []byte, l *lock) bool {
			_, ok := status[l.startTS]
			return ok
		})
	}
	var held []heldLock
	for _, user := range keys {
		encoded := EncodeKey(user)
		if l := loadLock(r, encoded); l != nil {
			if _, ok := status[l.startTS]; ok {
				held = append(held, heldLock{encoded, l})
			}
		}
	}
	return held
}

// locksIn lists at most limit locks (0: all) of [start, end) for which match is true, in key order.
func locksIn(r Reader, start, end []byte, limit int, match func(encoded []byte, l *lock) bool) []heldLock {
	var held []heldLock
	r.Ascend(CFLock, start, end, func(k, v []byte) bool {
		if l := decodeLock(v); match(k, l) {
			held = append(held, heldLock{k, l})
		}
		return limit == 0 || len(held) < limit
	})
	return held
}

// ScanLock lists the locks of [req.StartKey, req.EndKey) with start ts at or below req.MaxVersion, at most
// req.Limit of them (0: all). Give it a reader Within the region.
func ScanLock(r Reader, req *kvrpcpb.ScanLockRequest) *kvrpcpb.ScanLockResponse {
	resp := &kvrpcpb.ScanLockResponse{}
	found := locksIn(r, bound(req.StartKey), bound(req.EndKey), int(req.Limit), func(_ []byte, l *lock) bool {
		return l.startTS <= req.MaxVersion
	})
	for _, held := range found {
		resp.Locks = append(resp.Locks, held.lock.info(DecodeKey(held.encoded)))
	}
	return resp
}

// MinLockTS returns the smallest start ts of the locks in the range that will change data when they commit: no
// resolved ts may rise above it. ok is false if there is none. Of a pipelined transaction flushed has the commit ts that it
// will at least have, and that counts instead.
func MinLockTS(r Reader, keys Range, flushed func(startTS uint64) uint64) (ts uint64, ok bool) {
	ts = math.MaxUint64
	r.Ascend(CFLock, keys.Start, keys.End, func(_, v []byte) bool {
		if l := decodeLock(v); l.kind.changesData() {
			lowest := l.startTS
			if l.generation > 0 {
				lowest = flushed(l.startTS)
			}
			ts, ok = min(ts, lowest), true
		}
		return true
	})
	if !ok {
		return 0, false
	}
	return ts, true
}
