package resolve

import (
	"cmp"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// seat is the leadership of one region and the stores that may have it. Stores are indexes into the plan's.
type seat struct {
	best     *tikv.RegionMeta // what all that may lead say about the region
	store    int32
	may      []int32 // stores whose peers are equally good, in order; nil if there is but one
	replicas int
}

// better orders peers by last log term, then last index, then commit index: negative if a is the better one.
func better(a, b *tikv.RegionMeta) int {
	return cmp.Or(
		cmp.Compare(b.LastLogTerm, a.LastLogTerm),
		cmp.Compare(b.LastIndex, a.LastIndex),
		cmp.Compare(b.CommitIndex, a.CommitIndex),
	)
}

// elect chooses the best peers of each region. Of equal logs those count that have applied the newest version
// of the region: its range is the one that the others come to.
func (p *Plan) elect(stores []cluster.StoreID, metas Metas) ([]seat, error) {
	lists, most := make([][]tikv.RegionMeta, len(stores)), 0
	for i, store := range stores {
		p.AllocID = max(p.AllocID, uint64(store))
		lists[i] = inOrder(metas[store])
		most = max(most, len(lists[i]))
	}
	seats := make([]seat, 0, most)
	at := make([]int, len(lists))
	peers, on := make([]*tikv.RegionMeta, 0, len(stores)), make([]int32, 0, len(stores))
	for {
		id, found := least(lists, at)
		if !found {
			return seats, nil
		}
		peers, on = peers[:0], on[:0]
		for i, l := range lists {
			for ; at[i] < len(l) && l[at[i]].Region == id; at[i]++ {
				m := &l[at[i]]
				p.AllocID = max(p.AllocID, uint64(m.Region), uint64(m.PeerID))
				if m.Tombstone {
					continue
				}
				if n := len(on); n > 0 && on[n-1] == int32(i) { // there are never so many stores
					return nil, failure.New(failure.Corrupt, "plan recovery", "", "store %s reported region %s twice", stores[i], id)
				}
				peers, on = append(peers, m), append(on, int32(i)) // there are never so many stores
			}
		}
		if len(peers) > 0 {
			seats = append(seats, p.seat(peers, on))
		}
	}
}

// seat finds the peers that may lead a region and counts the others.
func (p *Plan) seat(peers []*tikv.RegionMeta, on []int32) seat {
	p.Peers += len(peers)
	best, ties, uneven := 0, 1, false
	for i, m := range peers[1:] {
		uneven = uneven || m.Version != peers[0].Version
		switch order := cmp.Or(better(m, peers[best]), cmp.Compare(peers[best].Version, m.Version)); {
		case order < 0:
			best, ties = i+1, 1
		case order == 0:
			ties++
		}
	}
	if uneven {
		p.Uneven = append(p.Uneven, peers[0].Region)
	}
	s := seat{best: peers[best], store: on[best], replicas: len(peers)}
	if ties > 1 {
		s.may = make([]int32, 0, ties)
	}
	for i, m := range peers {
		switch {
		case better(s.best, m) != 0:
			p.Lagging++
		case ties > 1 && m.Version == s.best.Version:
			s.may = append(s.may, on[i])
		}
	}
	return s
}

// inOrder is the metas by region id, as TiKV sends them.
func inOrder(metas []tikv.RegionMeta) []tikv.RegionMeta {
	byRegion := func(a, b tikv.RegionMeta) int { return cmp.Compare(a.Region, b.Region) }
	if slices.IsSortedFunc(metas, byRegion) {
		return metas
	}
	metas = slices.Clone(metas)
	slices.SortStableFunc(metas, byRegion)
	return metas
}

// least is the smallest region id that is not visited yet.
func least(lists [][]tikv.RegionMeta, at []int) (id cluster.RegionID, found bool) {
	for i, l := range lists {
		if at[i] < len(l) && (!found || l[at[i]].Region < id) {
			id, found = l[at[i]].Region, true
		}
	}
	return id, found
}
