package resolve

import (
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// ledByWitness reports whether the region's leader is a witness: it has the log, and answers all requests with
// IsWitness.
func ledByWitness(r *cluster.Region) bool {
	leads := func(p cluster.Peer) bool { return p.Witness && p.Store == r.Leader.Store }
	return r.Leader.Witness || slices.ContainsFunc(r.Peers, leads)
}

// relieveWitnesses makes another peer lead each region whose planned leader is a witness. The metas do not show which
// peer is a witness, and it is elected if its log is the longest. As the leader it has replicated its log to the
// others, which are preferred then. It returns true if a store was asked. Calls are spaced: a cancelled one must not
// reach its store after the next one, which it would end.
func (w *leaderWait) relieveWitnesses(s *phase.Scope, missing []missingLeader) bool {
	if time.Since(w.asked) < openAfter {
		return false
	}
	to := map[cluster.RegionID]cluster.StoreID{}
	var of []missingLeader
	for _, m := range missing {
		if !m.witness || m.now != m.planned.Store {
			continue
		}
		if next := w.next(m); next != 0 {
			w.tried[m.planned.Region] = append(w.tried[m.planned.Region], m.planned.Store)
			to[m.planned.Region] = next
			of = append(of, m)
		}
	}
	if len(to) == 0 {
		return false
	}
	s.Note("%d regions are led by a witness, which has no data, such as %s; another peer is to lead", len(to),
		failure.List(w.texts(of[:1])))
	w.asked = time.Now()
	w.move(to)
	return true
}
