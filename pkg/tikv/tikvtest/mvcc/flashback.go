package mvcc

import (
	"bytes"
	"errors"
)

// ErrAssertion is the assertion that kills a real TiKV: a key of the range was committed after the
// flashback's commit ts.
var ErrAssertion = errors.New("assertion failed: latest_commit_ts <= flashback_commit_ts")

// flashbackStride is how many unchanged keys a batch may look at for each key that it may change.
const flashbackStride = 64

// FlashbackBatch makes the next piece of a flashback of the range: at most limit keys are changed, from cursor
// on (nil: from the start). Locks are removed with their values. Every key whose newest Put or Delete is
// above version gets a record at commitTS that restores what was visible at version, a Delete if nothing was.
// Repeating it with the same startTS and commitTS changes nothing. next is the cursor of the next piece.
func FlashbackBatch(
	r Reader, keys Range, cursor []byte, version, startTS, commitTS uint64, limit int,
) (muts []Mutation, next []byte, done bool, err error) {
	start := keys.Start
	if bytes.Compare(cursor, start) > 0 {
		start = cursor
	}
	limit = max(limit, 1)
	f := &flashbacker{txn: txn{r: r, startTS: startTS}, version: version, commitTS: commitTS, limit: limit}
	next, err = f.collect(start, keys.End)
	if err != nil {
		return nil, nil, false, err
	}
	end := keys.End
	if next != nil {
		end = next
	}
	// Locks of the piece go with it, however many they are: a lock without its key has nothing to wait for.
	for _, held := range locksIn(r, start, end, 0, func([]byte, *lock) bool { return true }) {
		f.del(CFLock, held.encoded)
		if held.lock.longValue() {
			f.del(CFDefault, versioned(held.encoded, held.lock.startTS))
		}
	}
	for _, c := range f.changes {
		f.restore(c)
	}
	return f.muts, next, next == nil, nil
}

// change is a key that has to return to old, nil for a Delete.
type change struct {
	encoded []byte
	old     *write
}

type flashbacker struct {
	txn
	version, commitTS uint64
	limit             int
	changes           []change
}

// collect lists the keys of [start, end) to change and returns where it stopped, nil at the end of the range.
func (f *flashbacker) collect(start, end []byte) (next []byte, err error) {
	var key []byte
	var open bool // the last change still looks for its old version
	seen := 0
	f.r.Ascend(CFWrite, start, end, func(k, v []byte) bool {
		encoded, ts := splitVersioned(k)
		if !bytes.Equal(encoded, key) {
			if len(f.changes) == f.limit || seen == f.limit*flashbackStride {
				next = encoded
				return false
			}
			if ts > f.commitTS {
				err = ErrAssertion
				return false
			}
			key, open = encoded, false
			seen++
			if ts == f.commitTS {
				return true // done by an earlier try
			}
			open = true
		}
		open = open && f.visit(encoded, ts, decodeWrite(v))
		return true
	})
	return next, err
}

// visit takes one record of the key at hand, newest first, and reports whether older ones are needed.
func (f *flashbacker) visit(encoded []byte, ts uint64, w *write) bool {
	if !w.kind.changesData() {
		return true
	}
	n := len(f.changes)
	pending := n > 0 && bytes.Equal(f.changes[n-1].encoded, encoded)
	switch {
	case ts > f.version && !pending:
		f.changes = append(f.changes, change{encoded: encoded})
		return true
	case ts > f.version:
		return true
	case pending && w.kind == kindPut:
		f.changes[n-1].old = w
	}
	return false
}

func (f *flashbacker) restore(c change) {
	w := &write{kind: kindDelete, startTS: f.startTS}
	if c.old != nil {
		w.kind = kindPut
		w.short = f.store(c.encoded, f.startTS, value(f.r, c.encoded, c.old.startTS, c.old.short))
	}
	f.put(CFWrite, versioned(c.encoded, f.commitTS), w.encode())
}
