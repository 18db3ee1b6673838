package plan

import (
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// Others lists the stores beside the leader's that hold the region, the best log first. Raft itself refuses a leader
// whose log lacks a committed entry, so that each of them may be tried, but those that are affected (see
// Plan.Affected).
func (p *Plan) Others(l *Leader) []cluster.StoreID {
	var out []cluster.StoreID
	if len(p.peers) == 0 {
		return nil
	}
	for _, i := range p.peers[l.peers : int(l.peers)+l.Replicas] {
		if id := p.stores[i]; id != l.Store && !p.affects(l.Region, id) {
			out = append(out, id)
		}
	}
	return out
}

// Move lets other stores lead the regions, and returns the stores whose commands have changed, by id. The commands
// are new lists: calls under way may read the old ones.
func (p *Plan) Move(to map[cluster.RegionID]cluster.StoreID) []cluster.StoreID {
	lost, won := map[cluster.StoreID]map[cluster.RegionID]bool{}, map[cluster.StoreID][]tikv.Command{}
	var changed []cluster.StoreID
	for i := range p.Leaders {
		l := &p.Leaders[i]
		store, moves := to[l.Region]
		if !moves || store == l.Store {
			continue
		}
		if lost[l.Store] == nil {
			lost[l.Store] = map[cluster.RegionID]bool{}
		}
		lost[l.Store][l.Region] = true
		won[store] = append(won[store], tikv.Command{Region: l.Region, AsLeader: true})
		changed = append(changed, l.Store, store)
		l.Store = store
	}
	slices.Sort(changed)
	changed = slices.Compact(changed)
	for _, store := range changed {
		kept := slices.DeleteFunc(slices.Clone(p.Commands[store]),
			func(c tikv.Command) bool { return lost[store][c.Region] })
		p.Commands[store] = append(kept, won[store]...)
	}
	return changed
}
