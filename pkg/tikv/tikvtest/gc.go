package tikvtest

import "github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"

// gcKeys is how many keys one step of a garbage collection looks at; nothing is applied meanwhile.
const gcKeys = 4096

// CollectGarbage drops the versions that no read at the safe point or above needs, on this store alone, as a TiKV's
// compaction does; it returns how many records that were. The caller does what TiDB's GC worker does before: no lock
// of any store may be as old as the safe point.
func (s *Store) CollectGarbage(safePoint uint64) int {
	dropped := 0
	var cursor []byte
	for {
		var n int
		n, cursor = s.data.collectGarbage(cursor, safePoint)
		dropped += n
		if cursor == nil {
			return dropped
		}
	}
}

func (e *kvEngine) collectGarbage(cursor []byte, safePoint uint64) (dropped int, next []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	muts, next := mvcc.CollectGarbage(reader{e}, cursor, safePoint, gcKeys)
	if len(muts) > 0 {
		e.change(0, 0, 0, nil, muts)
		e.wal.append(encodeApply(recordApply, 0, 0, 0, nil, muts))
	}
	return len(muts), next
}

// OldestLock is the lowest start ts of the locks on this store; false if there is none.
func (s *Store) OldestLock() (startTS uint64, found bool) {
	s.data.view(func(r mvcc.Reader) { startTS, found = mvcc.OldestLock(r) })
	return startTS, found
}

// Versions is how many commit and rollback records the store has: what garbage collection bounds.
func (s *Store) Versions() int {
	s.data.mu.RLock()
	defer s.data.mu.RUnlock()
	return s.data.cfs[mvcc.CFWrite].Len()
}
