package mvcc

import (
	"bytes"
	"slices"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
)

// Scan returns the pairs visible at req.Version in [StartKey, EndKey), or downwards in [EndKey, StartKey) with
// Reverse, as far as they lie in bounds, at most Limit of them. A locked key is a pair with an error and counts.
func Scan(r Reader, req *kvrpcpb.ScanRequest, bounds Range) *kvrpcpb.ScanResponse {
	lower, upper := bound(req.StartKey), bound(req.EndKey)
	if req.Reverse {
		lower, upper = upper, lower
	}
	resp := &kvrpcpb.ScanResponse{}
	start, end, ok := bounds.intersect(lower, upper)
	if !ok || req.Limit == 0 {
		return resp
	}
	s := &scanner{
		snapshot: newSnapshot(r, req.Version, req.Context), limit: int(req.Limit), reverse: req.Reverse,
	}
	for _, h := range s.hits(start, end) {
		resp.Pairs = append(resp.Pairs, s.pair(h, req.KeyOnly))
	}
	return resp
}

// hit is a visible key: a version, or a lock that blocks the read or holds the value itself.
type hit struct {
	encoded []byte
	write   *write
	lock    *lock
}

type scanner struct {
	snapshot
	limit   int
	reverse bool
}

// hits merges visible versions with the locks that matter, in the scan's order.
func (s *scanner) hits(start, end []byte) []hit {
	locks := s.locks(start, end)
	shadowed := map[string]bool{}
	for _, h := range locks {
		shadowed[string(h.encoded)] = true
	}
	versions := s.versions(start, end, shadowed)
	all := slices.DeleteFunc(append(versions, locks...), func(h hit) bool {
		return h.lock != nil && h.lock.kind == kindDelete && s.sightOf(h) == sightCommitted
	})
	slices.SortFunc(all, func(a, b hit) int {
		if s.reverse {
			a, b = b, a
		}
		return bytes.Compare(a.encoded, b.encoded)
	})
	return all[:min(len(all), s.limit)]
}

func (s *scanner) sightOf(h hit) sight { return s.through(h.lock, DecodeKey(h.encoded)) }

// locks lists the locks that hide versions. Each but a committed delete yields a pair, so limit of them are enough.
func (s *scanner) locks(start, end []byte) []hit {
	var locks []hit
	pairs := 0
	s.walk(CFLock, start, end, func(k, v []byte) bool {
		h := hit{encoded: k, lock: decodeLock(v)}
		switch s.sightOf(h) {
		case sightPast:
			return true
		case sightBefore:
			// Only a read of the newest version skips a primary lock, and by its key: scans have a real ts.
			return true
		case sightBlocked:
			pairs++
		case sightCommitted:
			if h.lock.kind == kindPut {
				pairs++
			}
		}
		locks = append(locks, h)
		return pairs < s.limit
	})
	return locks
}

// versions lists the keys, at most limit, whose newest version at the snapshot's ts is a Put.
func (s *scanner) versions(start, end []byte, shadowed map[string]bool) []hit {
	var hits []hit
	var key []byte
	var newest *write // of key, as far as seen
	flush := func() bool {
		if newest != nil && newest.kind == kindPut && !shadowed[string(key)] {
			hits = append(hits, hit{encoded: key, write: newest})
		}
		newest = nil
		return len(hits) < s.limit
	}
	s.walk(CFWrite, start, end, func(k, v []byte) bool {
		encoded, ts := splitVersioned(k)
		if !bytes.Equal(encoded, key) {
			if !flush() {
				return false
			}
			key = encoded
		}
		// Upwards the newest version comes first, downwards last.
		if ts > s.ts || (newest != nil && !s.reverse) {
			return true
		}
		if w := decodeWrite(v); w.kind.changesData() {
			newest = w
		}
		return true
	})
	if len(hits) < s.limit {
		flush()
	}
	return hits
}

func (s *scanner) walk(cf CF, start, end []byte, fn func(k, v []byte) bool) {
	if s.reverse {
		s.r.Descend(cf, start, end, fn)
		return
	}
	s.r.Ascend(cf, start, end, fn)
}

func (s *scanner) pair(h hit, keyOnly bool) *kvrpcpb.KvPair {
	user := DecodeKey(h.encoded)
	switch {
	case h.lock != nil && s.sightOf(h) == sightBlocked:
		return &kvrpcpb.KvPair{Error: lockedError(user, h.lock), Key: user}
	case keyOnly:
		return &kvrpcpb.KvPair{Key: user}
	case h.lock != nil:
		return &kvrpcpb.KvPair{Key: user, Value: s.lockValue(h.encoded, h.lock).val}
	}
	return &kvrpcpb.KvPair{Key: user, Value: value(s.r, h.encoded, h.write.startTS, h.write.short)}
}
