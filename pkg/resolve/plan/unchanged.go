package plan

import (
	"iter"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/marks"
)

// Unchanged compares the logs that the stores have reported with the marks, and reports for each of Leaders whether its
// log ends where it did at its mark. Nothing is known so of a cluster without one of its stores: what the others lack
// may have been written there. A region with a replica whose data are ahead of the leader's log was written to.
func (p *Plan) Unchanged(set *marks.Set) []bool {
	same := make([]bool, len(p.Leaders))
	if set.Len() == 0 || len(p.Lost) > 0 {
		return same
	}
	affected := map[cluster.RegionID]bool{}
	for _, a := range p.Affected {
		affected[a.Region] = true
	}
	for i, log := range p.Logs() {
		m, ok := set.Find(log.Region)
		same[i] = ok && !affected[log.Region] && m.Unchanged(log)
	}
	return same
}

// Logs is what the stores have reported about the log of each of Leaders.
func (p *Plan) Logs() iter.Seq2[int, marks.Log] {
	uneven, ambiguous := setOf(p.Uneven), setOf(p.Ambiguous)
	return func(yield func(int, marks.Log) bool) {
		for i := range p.Leaders {
			l := &p.Leaders[i]
			log := marks.Log{
				Region: l.Region, Version: l.Version, Even: !uneven[l.Region], Term: l.Term, Longest: l.Index,
				Index: l.Index,
			}
			if ambiguous[l.Region] {
				log.Longest++ // a peer of an older term has a longer log than the leader
			}
			if !yield(i, log) {
				return
			}
		}
	}
}

func setOf(ids []cluster.RegionID) map[cluster.RegionID]bool {
	set := make(map[cluster.RegionID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}
