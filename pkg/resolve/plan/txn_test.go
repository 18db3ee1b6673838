package plan_test

import "slices"

// txn is a transaction that is not done. Quiet ones do not keep the resolved ts back: pessimistic locks do not, and
// pipelined transactions do by the commit ts that they will at least have.
type txn struct {
	start  uint64
	keys   []int // that were prewritten
	later  []int // that the next batches prewrite
	quiet  bool
	commit uint64 // 0 before it is known
	async  bool   // it was known at the prewrite
	over   bool   // rolled back
}

// begin prewrites the keys of a transaction; some may get lost.
func (s *shop) begin() {
	t := &txn{start: s.tick(), quiet: s.between(0, 2) == 0}
	for range s.between(1, 3) {
		key := s.between(0, 39)
		if s.write(write{kind: lockKey, key: key, start: t.start}) {
			t.keys = append(t.keys, key)
			if t.quiet {
				s.noteAt(pessimistic, key)
			}
		}
	}
	if len(t.keys) == 0 {
		return
	}
	if !t.quiet && s.between(0, 2) == 0 {
		t.commit, t.async = s.ahead(), true
	}
	s.open = append(s.open, t)
}

// beginLarge prewrites the first batch of a transaction with many neighbouring keys: a client sends what one region gets in
// batches of 16 KB, and each is an entry of its own. A pipelined one flushes them as they come, and may stay open for long.
func (s *shop) beginLarge() {
	t := &txn{start: s.tick(), quiet: s.between(0, 1) == 0}
	first := s.between(0, 31)
	for key := range s.between(4, 8) {
		t.later = append(t.later, first+key)
	}
	s.pipelined[t.start] = t.quiet
	s.batch(t)
	s.open = append(s.open, t)
}

// batch prewrites a few more keys of the transaction. If it cannot, the transaction is rolled back.
func (s *shop) batch(t *txn) {
	before := slices.Clone(t.keys)
	for range min(s.between(1, 2), len(t.later)) {
		key := t.later[0]
		if !s.write(write{kind: lockKey, key: key, start: t.start}) {
			t.over, t.later = true, nil
			return
		}
		t.keys, t.later = append(t.keys, key), t.later[1:]
	}
	for _, key := range before {
		if s.groupOf(key) == s.groupOf(t.keys[len(t.keys)-1]) {
			s.seen.batches++
			s.noteAt(largeTxn, key)
			return
		}
	}
}

// marked notes that the region is marked.
func (s *shop) marked(g *group) {
	for _, t := range s.open {
		if len(t.keys) > 0 && len(t.later) > 0 && s.groupOf(t.keys[0]) == g && s.groupOf(t.later[0]) == g {
			s.seen.acrossMark++
		}
	}
}

// advance lets a transaction commit, or roll back if one of its locks was lost, one key at a time, after
// the batches that it still has.
func (s *shop) advance(t *txn) {
	if len(t.later) > 0 {
		s.batch(t)
		return
	}
	var locked []int
	for _, key := range t.keys {
		now, ok := s.committed(key)
		switch {
		case !ok:
			return // no leader
		case now.lock == t.start:
			locked = append(locked, key)
		}
	}
	decided := t.commit != 0 && len(locked) < len(t.keys)
	if !decided && !t.over && len(locked) < len(t.keys) {
		t.over = true
	}
	if t.over {
		t.commit = 0
	} else if t.commit == 0 {
		t.commit = s.tick()
	}
	for _, key := range locked {
		if s.write(write{kind: freeKey, key: key, start: t.start, commit: t.commit}) && t.async && !t.over {
			s.noteAt(asyncCommit, key)
		}
		if s.between(0, 1) == 0 {
			return // the others later: secondaries, and of a primary at an unknown time
		}
	}
	if len(locked) == 0 {
		s.open = slices.DeleteFunc(s.open, func(o *txn) bool { return o == t })
	}
}
