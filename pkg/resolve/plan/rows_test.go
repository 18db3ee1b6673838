package plan_test

import "maps"

// The kinds of a write.
const (
	noWrite  = iota
	lockKey  // a prewrite or a pessimistic lock
	freeKey  // takes the transaction's lock away: a commit if there is a commit ts, or a rollback
	writeKey // a one-phase commit
)

// write is an entry's effect on one key.
type write struct {
	kind   int
	key    int
	start  uint64
	commit uint64
}

// row is a key's state.
type row struct {
	lock   uint64 // start ts of the transaction that has locked it
	commit uint64 // the largest commit ts of a version
}

// rows is the state of a region.
type rows map[int]row

func (r rows) from(key int) rows {
	out := rows{}
	for k, v := range r {
		if k >= key {
			out[k] = v
		}
	}
	return out
}

// apply makes the effect of one entry.
func (r rows) apply(w write) {
	now := r[w.key]
	switch {
	case w.kind == lockKey && now.lock == 0:
		now.lock = w.start
	case w.kind == freeKey && now.lock == w.start:
		now.lock, now.commit = 0, max(now.commit, w.commit)
	case w.kind == writeKey && now.lock == 0:
		now.commit = max(now.commit, w.commit)
	}
	if w.kind != noWrite {
		r[w.key] = now
	}
}

// rowsOf is what a replica with this log holds once all of it is applied.
func (w *world) rowsOf(g *group, log []entry) rows {
	out := maps.Clone(g.base)
	if out == nil {
		out = rows{}
	}
	for _, e := range log {
		switch {
		case e.split != 0:
			for k := range out {
				if k >= e.split {
					delete(out, k)
				}
			}
		case e.merge != 0:
			maps.Copy(out, w.merged[e.merge].rows)
		default:
			out.apply(e.write)
		}
	}
	return out
}
