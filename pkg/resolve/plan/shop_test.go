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
	// pipelined has the start ts of every pipelined transaction.
	pipelined map[uint64]bool
	seen      seen
}

// seen counts what the histories are there for.
type seen struct {
	batches    int // that came to a region which a batch of the same transaction had come to before
	acrossMark int // marks that were read between two batches of a transaction in the region
	open       int // regions whose log is the mark's, and that a pipelined transaction has locked since before
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

// noteAt notes what has happened to the region that serves the key.
func (s *shop) noteAt(k kind, key int) {
	if g := s.groupOf(key); g != nil {
		s.happened.note(k, g.id)
	}
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
	case op == 5 && s.between(0, 5) == 0:
		s.beginLarge()
	case op == 5:
		s.begin()
	case op == 6:
		key := s.between(0, 39)
		if s.write(write{kind: writeKey, key: key, start: s.tick(), commit: s.ahead()}) {
			s.noteAt(onePhase, key)
		}
	case op == 7:
		s.stale()
	case len(s.open) > 0:
		s.advance(pick(s.world, s.open))
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
		s.happened.note(staleLeader, g.id)
		return
	}
}

// resolve lets the resolved ts pass everything that PD has given out: what keeps it back is done, and applied by the
// leaders.
func (s *shop) resolve() { s.settle(func(t *txn) bool { return !t.quiet }) }

// settle ends the transactions that are waited for, and lets the leaders apply all.
func (s *shop) settle(waitedFor func(*txn) bool) {
	for range 100 {
		s.hold()
		done := true
		for _, t := range slices.Clone(s.open) {
			if waitedFor(t) {
				done = false
				s.advance(t)
			}
		}
		if done {
			return
		}
	}
	s.t.Skip("a merge was lost with its leader, and no replica takes the source's writes: the resolved ts would not advance")
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
