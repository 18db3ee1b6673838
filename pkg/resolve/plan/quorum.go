package plan

import (
	"fmt"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

const hintQuorum = "restore another backup: a store's volumes are missing, or the hold of this one was broken"

// quorum refuses regions that fewer than a majority of their replicas hold. The metas do not show who the
// replicas are. While no store is lost, all of them have reported, and those that are left of a replica that
// was moved away do no harm. With a lost store only those count that know the last peer that came to the
// region: what is left of a moved replica does not.
func (p *Plan) quorum(c *choices, tables []*StoreMetas, kept []uint32, rules Rules) error {
	need := rules.Replicas/2 + 1
	count := func(s *choice) int {
		if len(rules.Lost) > 0 {
			return int(s.current)
		}
		return int(s.replicas)
	}
	var short []uint32
	p.Fewest = rules.Replicas
	for _, i := range kept {
		switch n := count(&c.regions[i]); {
		case n < need:
			short = append(short, i)
		case n < rules.Replicas:
			p.Degraded = append(p.Degraded, cluster.RegionID(c.regions[i].region))
			p.Fewest = min(p.Fewest, n)
		}
	}
	if len(short) == 0 {
		return nil
	}
	coming := map[uint32]int{}
	if len(rules.Lost) == 0 {
		coming = p.awaitingSplit(c, tables, short)
	}
	var refused []string
	for _, i := range short {
		s := &c.regions[i]
		if n := count(s) + coming[i]; n >= need {
			p.Degraded = append(p.Degraded, cluster.RegionID(s.region))
			p.Fewest = min(p.Fewest, n)
			continue
		}
		refused = append(refused,
			fmt.Sprintf("region %d on %d store(s)%s", s.region, count(s), p.tombstonesOf(s.region)))
	}
	if len(refused) == 0 {
		return nil
	}
	without := ""
	if len(rules.Lost) > 0 {
		without = fmt.Sprintf(" without store %s", joined(rules.Lost))
	}
	return failure.New(failure.Corrupt, "plan recovery", "",
		"%d regions are on fewer than %d of %d replicas%s, so committed writes may be lost: %s",
		len(refused), need, rules.Replicas, without, failure.List(refused)).WithHint("%s", hintQuorum)
}

// awaitingSplit counts the stores that will hold a region as soon as they have applied the split that made it: they
// hold, at an older version, a region of the same keys. Nothing was committed in the new region by such a store,
// so nothing of it is lost.
func (p *Plan) awaitingSplit(c *choices, tables []*StoreMetas, short []uint32) map[uint32]int {
	behind := make([]uint64, 0, len(c.uneven)+len(p.Dropped)) // only their peers can be of older versions
	for _, id := range c.uneven {
		behind = append(behind, uint64(id))
	}
	for i := range p.Dropped {
		behind = append(behind, uint64(p.Dropped[i].Region))
	}
	coming := map[uint32]int{}
	for _, t := range tables {
		seen := map[uint32]bool{}
		for _, id := range behind {
			if row := t.find(id); row != nil {
				c.children(t, row, short, func(i uint32) { seen[i] = true })
			}
		}
		for i := range seen {
			if t.find(c.regions[i].region) == nil {
				coming[i]++
			}
		}
	}
	return coming
}

// children finds the regions that hold keys of the row and are newer; short is in the order of the keys.
func (c *choices) children(t *StoreMetas, row *peerRow, short []uint32, each func(uint32)) {
	first, _ := slices.BinarySearchFunc(short, row.start, func(i uint32, start keyID) int {
		return t.keys.compare(c.regions[i].start, start)
	})
	for _, i := range short[max(0, first-1):] { // the one before may reach into the row
		s := &c.regions[i]
		if row.end != 0 && !t.keys.beyond(row.end, s.start) {
			return
		}
		if t.keys.beyond(s.end, row.start) && s.version > row.version {
			each(i)
		}
	}
}

// tombstonesOf describes a region's tombstones.
func (p *Plan) tombstonesOf(region uint64) string {
	n := 0
	for _, t := range p.Tombstones {
		if t.Region == cluster.RegionID(region) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and a tombstone on %d", n)
}

// addTombstones lists the tombstones.
func (p *Plan) addTombstones(c *choices, tables []*StoreMetas, keys *keyTable) {
	for i, table := range tables {
		for k := range table.tombstones {
			t := &table.tombstones[k]
			p.Tombstones = append(p.Tombstones, Tombstone{
				Region: cluster.RegionID(t.region), Store: c.stores[i], term: t.term, index: t.index,
				Keys: cluster.KeyRange{Start: keys.bytes(t.start), End: keys.bytes(t.end)},
			})
		}
	}
}

// refuseNewerTombstones refuses a region with a tombstone that has a longer log than the best peer that is left: the
// region was merged away, and what took its place is not in the metas.
func (p *Plan) refuseNewerTombstones(c *choices, kept []uint32) error {
	if len(p.Tombstones) == 0 {
		return nil
	}
	alive := make([]bool, len(c.regions))
	for _, i := range kept {
		alive[i] = true
	}
	var refused []string
	for _, t := range p.Tombstones {
		i, ok := c.find(uint64(t.Region))
		if !ok || !alive[i] {
			continue
		}
		if s := &c.regions[i]; t.term > s.term || t.term == s.term && t.index > s.index {
			refused = append(refused, fmt.Sprintf("region %s on store %s", t.Region, t.Store))
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return failure.New(failure.Corrupt, "plan recovery", "",
		"%d tombstones have a longer log than the peers that are left of their regions: %s",
		len(refused), failure.List(refused)).WithHint("%s", hintQuorum)
}
