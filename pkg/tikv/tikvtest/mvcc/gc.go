package mvcc

import "bytes"

// CollectGarbage makes the next piece of a collection, from cursor on (nil: from the start): of at most limit keys it
// drops every record at or below safePoint that no read at safePoint or above needs. What stays of a key is its newest
// Put at or below safePoint. No transaction with a lock may have started at or below safePoint: what decided it could
// be dropped. next is the cursor of the next piece, nil at the end.
func CollectGarbage(r Reader, cursor []byte, safePoint uint64, limit int) (muts []Mutation, next []byte) {
	c := &txn{r: r}
	var key []byte
	decided := false // what a read at safePoint sees of the key is known
	seen := 0
	r.Ascend(CFWrite, cursor, nil, func(k, v []byte) bool {
		encoded, ts := splitVersioned(k)
		if !bytes.Equal(encoded, key) {
			if seen == max(limit, 1) {
				next = encoded
				return false
			}
			key, decided, seen = encoded, false, seen+1
		}
		if ts > safePoint {
			return true
		}
		w := decodeWrite(v)
		if w.kind == kindPut && !decided {
			decided = true
			return true
		}
		decided = decided || w.kind == kindDelete
		c.del(CFWrite, k)
		if w.kind == kindPut && w.short == nil {
			c.del(CFDefault, versioned(encoded, w.startTS))
		}
		return true
	})
	return c.muts, next
}

// OldestLock is the lowest start ts of all locks; false if there is none.
func OldestLock(r Reader) (startTS uint64, found bool) {
	r.Ascend(CFLock, nil, nil, func(_, v []byte) bool {
		if l := decodeLock(v); !found || l.startTS < startTS {
			startTS, found = l.startTS, true
		}
		return true
	})
	return startTS, found
}
