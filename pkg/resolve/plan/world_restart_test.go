package plan_test

import (
	"maps"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// restart lets a store's process end and start again. It leads nothing then, and does not write on as a leader that was
// deposed does. Of a log it may have lost the end that it had not written down: no entry that is committed or applied is of
// that.
func (w *world) restart(on cluster.StoreID) {
	for _, id := range slices.Sorted(maps.Keys(w.groups)) {
		g := w.groups[id]
		r := g.replicas[on]
		if r == nil {
			continue
		}
		written := max(r.applied, min(g.commit, len(r.log)))
		r.log = slices.Clone(r.log[:w.between(written, len(r.log))])
		maps.DeleteFunc(g.ruled, func(_ uint64, s cluster.StoreID) bool { return s == on })
		if g.leader == on {
			g.leader = 0
		}
		w.happened.note(restarted, id)
	}
}
