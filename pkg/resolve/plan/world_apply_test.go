package plan_test

import (
	"maps"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// apply lets a replica apply some of what is committed, or all.
func (w *world) apply(g *group, on cluster.StoreID, all bool) {
	r, l := g.replicas[on], g.leading()
	if r == nil || l == nil || !slices.Contains(g.members(), on) {
		return // what is left of a replica hears of nothing
	}
	known := 0
	for known < min(g.commit, len(r.log), len(l.log)) && r.log[known] == l.log[known] {
		known++
	}
	if known <= r.applied {
		return
	}
	n := known - r.applied
	if !all {
		n = w.between(1, n)
	}
	for ; n > 0 && g.replicas[on] == r; n-- {
		e := r.log[r.applied]
		r.applied++
		switch {
		case e.split != 0:
			w.applySplit(g, on, r, e)
		case e.merge != 0:
			source := w.merged[e.merge]
			r.end, r.version = source.end, max(r.version, source.version)+1
			w.happened.note(regionMerged, g.id)
			delete(source.replicas, on)
		case e.add != 0:
			r.peer = max(r.peer, e.peer)
		}
		if on == g.leader && r.applied > g.configured {
			g.configured = r.applied
			w.configure(g, e)
		}
	}
}

func (w *world) applySplit(g *group, on cluster.StoreID, r *replica, e entry) {
	r.version++
	w.happened.note(regionSplit, g.id)
	w.happened.note(regionSplit, e.child)
	child := w.groups[e.child]
	if m := w.merged[e.child]; m != nil {
		child = m.group
	}
	if child == nil {
		child = w.group(e.child, g.voters, 0)
		child.learner = g.learner
		child.base = w.rowsOf(g, r.log[:r.applied-1]).from(e.split)
	}
	if child.replicas[on] == nil {
		child.replicas[on] = &replica{
			vote: 5, log: []entry{{term: 5}}, applied: 1, version: r.version, start: e.split, end: r.end, peer: r.peer,
		}
	}
	if on == g.leader && !child.founded {
		child.leader, child.founded = on, true
	}
	r.end = e.split
}

// configure changes the members when the leader applies the change, the first time that one does.
func (w *world) configure(g *group, e entry) {
	switch {
	case e.add != 0:
		g.learner = e.add
	case e.swap != 0:
		if g.learner == 0 {
			w.t.Fatalf("region %s has no learner that could be a voter", g.id)
		}
		g.voters = append(slices.DeleteFunc(slices.Clone(g.voters), func(s cluster.StoreID) bool { return s == e.swap }), g.learner)
		g.learner = 0
		w.happened.note(membersChanged, g.id)
		if g.leader == e.swap {
			g.leader = 0
		}
		if w.between(0, 1) == 1 {
			delete(g.replicas, e.swap)
		}
	}
}

// hold waits as a hold does: until no leader has anything left to apply. Followers may lag.
func (w *world) hold() {
	for rounds, quiet := 0, false; !quiet; rounds++ {
		if quiet = true; rounds > 100 {
			for id, g := range w.groups {
				w.t.Logf("region %s: voters %v learner %s leader %s commit %d", id, g.voters, g.learner, g.leader, g.commit)
				for s, r := range g.replicas {
					w.t.Logf("  store %s: %+v", s, *r)
				}
			}
			w.t.Fatalf("the world does not come to rest")
		}
		for _, id := range slices.Sorted(maps.Keys(w.groups)) {
			g := w.groups[id]
			if !g.busy() {
				continue
			}
			quiet = false
			if rounds > 3 { // a snapshot waits until another region's replica has caught up
				w.catchUpAll()
			}
			if g.leader == 0 { // a leader is elected when enough voters have applied the split
				w.catchUpAll()
				for _, s := range g.voters {
					if g.leader == 0 {
						w.electOn(g, s)
					}
				}
				continue
			}
			others := slices.DeleteFunc(slices.Clone(g.voters), func(s cluster.StoreID) bool { return s == g.leader })
			w.replicate(g, pick(w, others), true)
			w.apply(g, g.leader, true)
		}
	}
}

func (w *world) catchUpAll() {
	for _, id := range slices.Sorted(maps.Keys(w.groups)) {
		w.catchUp(w.groups[id])
	}
}

// catchUp lets all replicas of a region apply everything.
func (w *world) catchUp(g *group) {
	if g.leader == 0 {
		return
	}
	for _, s := range g.members() {
		w.replicate(g, s, true)
	}
	for _, s := range g.members() {
		w.apply(g, s, true)
	}
}

// committed is what is committed in each region.
func (w *world) committed() map[cluster.RegionID][]entry {
	out := map[cluster.RegionID][]entry{}
	for id, g := range w.groups {
		if g.leader != 0 {
			out[id] = slices.Clone(g.leading().log[:g.commit])
		}
	}
	return out
}

// image is what the volumes of a store hold.
type image map[cluster.RegionID]*replica

// copyStore takes a store's image.
func (w *world) copyStore(s cluster.StoreID) image {
	out := image{}
	for id, g := range w.groups {
		if r := g.replicas[s]; r != nil {
			out[id] = r.clone()
		}
	}
	for id, m := range w.merged {
		if r := m.replicas[s]; r != nil {
			out[id] = r.clone()
		}
	}
	return out
}

// cut copies the stores one after the other, while work continues: with admin, as if nothing held the cluster.
func (w *world) cut(admin bool) map[cluster.StoreID]image {
	out := map[cluster.StoreID]image{}
	for _, s := range w.shuffled(w.stores) {
		for range w.between(0, 6) {
			w.step(admin)
		}
		out[s] = w.copyStore(s)
	}
	return out
}

// reported is the metas that the restored stores send about their peers.
func reported(images map[cluster.StoreID]image, hardState bool) peers {
	out := peers{}
	for s, held := range images {
		out[s] = nil
		for _, id := range slices.Sorted(maps.Keys(held)) {
			out[s] = append(out[s], held[id].meta(id, hardState))
		}
	}
	return out
}
