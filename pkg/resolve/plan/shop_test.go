package plan_test

import (
	"maps"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// shop is transactions on a world, with PD's timestamps.
type shop struct {
	*world
	now  uint64 // the last timestamp that PD has given out
	open []*txn
}

// txn is a transaction that is not done. Quiet ones do not keep the resolved ts back: pessimistic locks do not, and
// large transactions do by the commit ts that they will at least have.
type txn struct {
	start  uint64
	keys   []int
	quiet  bool
	commit uint64 // 0 before it is known
	over   bool   // rolled back
}

func (s *shop) tick() uint64 { s.now++; return s.now }

// ahead is a commit ts that PD has not given out: the last of a chain of transactions that a store has made one after the
// other, each of them above the largest timestamp that was read at.
func (s *shop) ahead() uint64 { return s.now + uint64(s.between(1, margin/5)) }

// groupOf is the region that serves the key, if it may take a write now.
func (s *shop) groupOf(key int) *group {
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		g := s.groups[id]
		if l := g.leading(); l != nil && key >= l.start && (l.end == 0 || key < l.end) && !g.changing() {
			return g
		}
	}
	return nil
}

func (s *shop) write(w write) bool {
	g := s.groupOf(w.key)
	if g == nil || s.resting[g.id] && w.kind != freeKey {
		return false
	}
	g.propose(entry{write: w})
	return true
}

// committed is the key's state as its leader serves it, and whether there is one.
func (s *shop) committed(key int) (row, bool) {
	g := s.groupOf(key)
	if g == nil {
		return row{}, false
	}
	return s.rowsOf(g, g.leading().log[:min(g.commit, len(g.leading().log))])[key], true
}

// step lets something happen to the cluster or to its rows.
func (s *shop) step(admin bool) {
	switch op := s.between(0, 9); {
	case op <= 4:
		s.world.step(admin)
	case op == 5:
		s.begin()
	case op == 6:
		s.write(write{kind: writeKey, key: s.between(0, 39), start: s.tick(), commit: s.ahead()})
	case op == 7:
		s.stale()
	case len(s.open) > 0:
		s.advance(pick(s.world, s.open))
	}
}

// begin prewrites the keys of a transaction; some may get lost.
func (s *shop) begin() {
	t := &txn{start: s.tick(), quiet: s.between(0, 2) == 0}
	for range s.between(1, 3) {
		key := s.between(0, 39)
		if s.write(write{kind: lockKey, key: key, start: t.start}) {
			t.keys = append(t.keys, key)
		}
	}
	if len(t.keys) == 0 {
		return
	}
	if !t.quiet && s.between(0, 2) == 0 {
		t.commit = s.ahead() // an asynchronous commit knows it at the prewrite
	}
	s.open = append(s.open, t)
}

// advance lets a transaction commit, or roll back if one of its locks was lost, one key at a time.
func (s *shop) advance(t *txn) {
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
		s.write(write{kind: freeKey, key: key, start: t.start, commit: t.commit})
		if s.between(0, 1) == 0 {
			return // the others later: secondaries, and of a primary nobody knows when
		}
	}
	if len(locked) == 0 {
		s.open = slices.DeleteFunc(s.open, func(o *txn) bool { return o == t })
	}
}

// stale lets a leader that was deposed and has not heard of it append to its own log.
func (s *shop) stale() {
	g := s.groups[pick(s.world, slices.Sorted(maps.Keys(s.groups)))]
	for _, id := range slices.Sorted(maps.Keys(g.replicas)) {
		r := g.replicas[id]
		if s.resting[g.id] || id == g.leader || g.ruled[r.vote] != id || last(r.log) != r.vote || slices.ContainsFunc(r.log[r.applied:], entry.admin) {
			continue
		}
		at := r.start
		r.log = append(r.log, entry{term: r.vote, write: write{kind: writeKey, key: at, start: s.tick(), commit: s.now + 1}})
		return
	}
}

// resolve lets the resolved ts pass everything that PD has given out: what keeps it back is done, and applied by the
// leaders. It returns the resolved ts.
func (s *shop) resolve() uint64 {
	for range 100 {
		s.hold()
		var left []*txn
		for _, t := range s.open {
			if !t.quiet {
				left = append(left, t)
			}
		}
		if len(left) == 0 {
			return s.now
		}
		for _, t := range left {
			s.advance(t)
		}
	}
	s.t.Skip("a merge was lost with its leader, and nobody takes the source's writes: the resolved ts would not advance")
	return 0
}

// copyAll copies the stores one after the other, while work continues.
func (s *shop) copyAll() map[cluster.StoreID]image {
	out := map[cluster.StoreID]image{}
	for _, id := range s.shuffled(s.stores) {
		for range s.between(0, 8) {
			s.step(false)
		}
		out[id] = s.copyStore(id)
	}
	return out
}
