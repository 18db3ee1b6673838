package plan

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/saturate"
)

// choice is the leadership of one region and the stores that may have it. Stores are indexes into the plan's.
type choice struct {
	region      uint64
	version     uint64 // the newest that a peer has applied, and its range
	start, end  keyID
	term, index uint64 // of the best log
	peer        uint64 // the largest peer id that a peer knows of
	may         uint32 // where its stores begin in choices.may: the equally good ones, then the others by their logs
	ties        uint16 // how many equally good ones there are; 1 if there is no choice
	replicas    uint16 // stores that reported the region
	current     uint16 // those of them that know the largest peer id: none of the others saw the last peer come
	store       uint16
}

// better orders peers by last log term, then last index, then commit index: negative if a is the better one.
func better(a, b *peerRow) int {
	return cmp.Or(cmp.Compare(b.term, a.term), cmp.Compare(b.index, a.index), cmp.Compare(b.commit, a.commit))
}

// choices is the best peers of the regions, in the order of region ids.
type choices struct {
	regions []choice
	may     []uint16 // of all regions that have a choice

	peers     int
	lagging   int
	behind    uint64
	uneven    []cluster.RegionID
	ambiguous []cluster.RegionID
	crowded   []cluster.RegionID

	early    aheadSet // peers ahead of their own logs
	certain  bool     // all of them are affected
	affected []Ahead

	stores []cluster.StoreID
	row    []*peerRow // of the region at hand, and the stores that hold them
	others []int      // scratch of addOthers: indexes into row
	on     []uint16
}

// chooseLeaders chooses the best peers of each region, on all processors: the region ids are cut into as many parts.
func chooseLeaders(
	ctx context.Context, stores []cluster.StoreID, tables []*StoreMetas, rules Rules,
) (*choices, error) {
	if len(stores) > math.MaxUint16 {
		return nil, failure.New(failure.Corrupt, "plan recovery", "", "%d stores are more than a cluster has",
			len(stores))
	}
	cuts := partition(tables, runtime.GOMAXPROCS(0))
	parts, early := make([]*choices, len(cuts)-1), newAheadSet(rules.Ahead)
	err := parallel.Each(ctx, 0, parts, func(_ context.Context, i int, _ *choices) error {
		parts[i] = &choices{stores: stores, early: early, certain: rules.AheadForSure}
		return parts[i].run(newQueue(tables, cuts[i], cuts[i+1], i == len(parts)-1), rules.Replicas)
	})
	if err != nil {
		return nil, err
	}
	return join(parts), nil
}

// partition cuts the region ids so that each part has about as many peers; the first cut is 0.
func partition(tables []*StoreMetas, n int) []uint64 {
	largest := slices.MaxFunc(tables, func(a, b *StoreMetas) int { return cmp.Compare(a.Len(), b.Len()) })
	cuts := []uint64{0}
	for i := 1; i < n && largest.Len() >= rowBlock; i++ {
		cuts = append(cuts, largest.at(largest.Len()*i/n).region)
	}
	return append(cuts, math.MaxUint64)
}

// join puts the parts behind each other.
func join(parts []*choices) *choices {
	all := parts[0]
	regions, may := 0, 0
	for _, p := range parts {
		regions, may = regions+len(p.regions), may+len(p.may)
	}
	all.regions, all.may = slices.Grow(all.regions, regions-len(all.regions)), slices.Grow(all.may, may-len(all.may))
	for _, p := range parts[1:] {
		base := saturate.To[uint32](len(all.may))
		for i := range p.regions {
			p.regions[i].may += base
		}
		all.regions, all.may = append(all.regions, p.regions...), append(all.may, p.may...)
		all.behind = max(all.behind, p.behind)
		all.peers, all.lagging = all.peers+p.peers, all.lagging+p.lagging
		all.uneven, all.ambiguous = append(all.uneven, p.uneven...), append(all.ambiguous, p.ambiguous...)
		all.crowded, all.affected = append(all.crowded, p.crowded...), append(all.affected, p.affected...)
	}
	return all
}

// run chooses for the regions in line; replicas is how many peers each may have.
func (c *choices) run(line queue, replicas int) error {
	n := line.len()
	c.regions, c.may = make([]choice, 0, n/max(replicas, 1)+n/32), make([]uint16, 0, n)
	for len(line) > 0 {
		id := line[0].region
		c.row, c.on = c.row[:0], c.on[:0]
		for len(line) > 0 && line[0].region == id {
			if n := len(c.on); n > 0 && c.on[n-1] == line[0].store {
				return failure.New(failure.Corrupt, "plan recovery", "", "store %s reported region %d twice",
					c.stores[line[0].store], id)
			}
			c.row, c.on = append(c.row, line[0].peer()), append(c.on, line[0].store)
			line.advance()
		}
		if err := c.choose(); err != nil {
			return err
		}
		if len(c.row) > replicas {
			c.crowded = append(c.crowded, cluster.RegionID(id))
		}
	}
	return nil
}

// choose finds the peers that may lead the region at hand. Its range is that of the newest version: a peer that has
// applied a split or merge proves that it was committed, so that it is in the best log too. Of equal logs those may
// lead that have applied the newest version themselves, and none that is ahead of its log beside one that is not.
func (c *choices) choose() error {
	first, newest, peer := c.compare()
	best := c.row[first]
	s := choice{
		region: best.region, version: newest.version, start: newest.start, end: newest.end, term: best.term,
		index: best.index,
		peer:  peer, replicas: saturate.To[uint16](len(c.row)), may: saturate.To[uint32](len(c.may)),
	}
	ambiguous, uneven := false, false
	for i, m := range c.row {
		if m.peer == peer {
			s.current++
		}
		uneven = uneven || m.version != newest.version
		if m.version == newest.version && (m.start != newest.start || m.end != newest.end) {
			return failure.New(failure.Corrupt, "plan recovery", "",
				"region %d has two ranges of version %d on stores %v", m.region, m.version, c.names())
		}
		switch {
		case better(best, m) != 0:
			c.lagging++
			ambiguous = ambiguous || m.index > best.index
			c.behind = max(c.behind, best.index-min(best.index, m.index))
		case c.ties(first, i):
			s.ties++
			c.may = append(c.may, c.on[i])
		}
	}
	s.store = c.may[s.may]
	c.addOthers(first)
	c.addAffected(best)
	if uneven {
		c.uneven = append(c.uneven, cluster.RegionID(s.region))
	}
	if ambiguous {
		c.ambiguous = append(c.ambiguous, cluster.RegionID(s.region))
	}
	c.peers += len(c.row)
	c.regions = append(c.regions, s)
	return nil
}

// addOthers adds the stores of the region at hand that may not lead by the plan: the best log first, then the
// newest version.
func (c *choices) addOthers(best int) {
	first := len(c.may)
	for i, m := range c.row {
		if c.ties(best, i) {
			continue
		}
		c.others = append(c.others[:len(c.may)-first], i)
		at := len(c.may)
		c.may = append(c.may, c.on[i])
		for ; at > first && worse(c.row[c.others[at-first-1]], m); at-- {
			c.may[at], c.may[at-1] = c.may[at-1], c.may[at]
			c.others[at-first], c.others[at-first-1] = c.others[at-first-1], c.others[at-first]
		}
	}
}

// worse reports whether b is to be tried before a.
func worse(a, b *peerRow) bool { return cmp.Or(better(b, a), cmp.Compare(a.version, b.version)) < 0 }

// ties reports whether peer i of the region at hand may lead as well as the best one.
func (c *choices) ties(best, i int) bool {
	return better(c.row[best], c.row[i]) == 0 && c.row[best].version == c.row[i].version && c.ahead(best) == c.ahead(i)
}

// compare finds the peer with the best log of the region at hand, the newest version and the largest peer id.
func (c *choices) compare() (best int, newest *peerRow, peer uint64) {
	newest = c.row[0]
	for i, m := range c.row {
		if m.version > newest.version {
			newest = m
		}
		if cmp.Or(better(m, c.row[best]), rank(c.ahead(i))-rank(c.ahead(best)),
			cmp.Compare(c.row[best].version, m.version)) < 0 {
			best = i
		}
		peer = max(peer, m.peer)
	}
	return best, newest, peer
}

func rank(ahead bool) int {
	if ahead {
		return 1
	}
	return 0
}

// names lists the stores that hold the region at hand.
func (c *choices) names() []cluster.StoreID {
	var ids []cluster.StoreID
	for _, i := range c.on {
		ids = append(ids, c.stores[i])
	}
	return ids
}

// find is the number of a region's choice.
func (c *choices) find(region uint64) (int, bool) {
	return slices.BinarySearchFunc(c.regions, region,
		func(s choice, id uint64) int { return cmp.Compare(s.region, id) })
}
