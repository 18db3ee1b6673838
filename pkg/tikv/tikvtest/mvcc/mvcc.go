package mvcc

import "bytes"

// CF is one of TiKV's column families.
type CF uint8

// The column families of transactional data.
const (
	CFDefault CF = iota // values too long to be inline: encoded key + descending start ts
	CFLock              // locks: encoded key
	CFWrite             // commit and rollback records: encoded key + descending commit ts
)

// String is TiKV's name of the column family.
func (c CF) String() string {
	switch c {
	case CFDefault:
		return "default"
	case CFLock:
		return "lock"
	case CFWrite:
		return "write"
	}
	return "unknown"
}

// Mutation is one change of the store, by engine key. A later mutation of a list wins over an earlier one.
type Mutation struct {
	CF         CF
	Delete     bool
	Key, Value []byte
}

// Range is [Start, End) of encoded user keys, as regions have them; an empty End is unbounded.
type Range struct {
	Start, End []byte
}

// Contains reports whether the encoded key lies in the range.
func (r Range) Contains(key []byte) bool {
	return bytes.Compare(key, r.Start) >= 0 && (len(r.End) == 0 || bytes.Compare(key, r.End) < 0)
}

// intersect returns what [start, end) and r have in common; ok is false if that is nothing.
func (r Range) intersect(start, end []byte) (from, to []byte, ok bool) {
	from, to = start, end
	if bytes.Compare(r.Start, from) > 0 {
		from = r.Start
	}
	if len(r.End) > 0 && (len(to) == 0 || bytes.Compare(r.End, to) < 0) {
		to = r.End
	}
	return from, to, len(to) == 0 || bytes.Compare(from, to) < 0
}

// Reader is one consistent view of the store, by engine key. Slices that it hands out stay unchanged after
// the call. No function of this package calls it from inside a callback.
type Reader interface {
	// Get returns the value of a key.
	Get(cf CF, key []byte) ([]byte, bool)
	// Ascend calls fn for each key of [start, end) in order until fn returns false; an empty end is unbounded.
	Ascend(cf CF, start, end []byte, fn func(k, v []byte) bool)
	// Descend is Ascend from the end downwards.
	Descend(cf CF, start, end []byte, fn func(k, v []byte) bool)
}

// Within is r seen through a range: keys outside do not exist. ResolveLock, ScanLock and
// PessimisticRollback without keys go over all that they see, so give them the region's range.
func Within(r Reader, keys Range) Reader { return within{r, keys} }

type within struct {
	r    Reader
	keys Range
}

// Get returns the value of a key of the range.
func (w within) Get(cf CF, key []byte) ([]byte, bool) {
	if !w.keys.Contains(key) {
		return nil, false
	}
	return w.r.Get(cf, key)
}

// Ascend goes over what [start, end) and the range have in common.
func (w within) Ascend(cf CF, start, end []byte, fn func(k, v []byte) bool) {
	if from, to, ok := w.keys.intersect(start, end); ok {
		w.r.Ascend(cf, from, to, fn)
	}
}

// Descend goes over what [start, end) and the range have in common, from the end downwards.
func (w within) Descend(cf CF, start, end []byte, fn func(k, v []byte) bool) {
	if from, to, ok := w.keys.intersect(start, end); ok {
		w.r.Descend(cf, from, to, fn)
	}
}
