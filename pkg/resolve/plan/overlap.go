package plan

import (
	"container/heap"
	"fmt"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// tiles reports whether the regions, sorted by start key, cover the key space exactly once. Neighbours share the
// id of the key between them, so that no key has to be compared.
func tiles(regions []choice, order []uint32) bool {
	reach, open := keyID(0), true
	for _, i := range order {
		s := &regions[i]
		if !open || s.start != reach || s.start == s.end && s.end != 0 {
			return false
		}
		reach, open = s.end, s.end != 0
	}
	return !open
}

// active is a choice whose range has begun.
type active struct {
	version uint64
	choice  uint32
}

// versions is a heap of active regions; the top is the newest, or the oldest if up.
type versions struct {
	up    bool
	items []active
}

func (v *versions) Len() int { return len(v.items) }
func (v *versions) Less(i, k int) bool {
	return (v.items[i].version < v.items[k].version) == v.up && v.items[i].version != v.items[k].version
}
func (v *versions) Swap(i, k int) { v.items[i], v.items[k] = v.items[k], v.items[i] }

// Push implements heap.Interface.
func (v *versions) Push(x any) { v.items = append(v.items, x.(active)) } //nolint:errcheck // only we push

// Pop implements heap.Interface.
func (v *versions) Pop() any {
	x := v.items[len(v.items)-1]
	v.items = v.items[:len(v.items)-1]
	return x
}

// outdated finds the regions that overlap a newer one, newer by version, and the newest of those. Each key
// belongs to regions of ever higher versions, because splits and merges raise them: so the older one is a
// region as it was before. That also holds if the newer one is itself older than a third.
func outdated(regions []choice, order []uint32, keys *keyTable) map[uint32]uint32 {
	by := map[uint32]uint32{}
	note := func(old, newer uint32) {
		if known, ok := by[old]; !ok || regions[known].version < regions[newer].version {
			by[old] = newer
		}
	}
	// Ranges that have ended stay until they come to the top.
	newest, oldest := &versions{}, &versions{up: true}
	for _, i := range order {
		s := &regions[i]
		ended := func(a active) bool { return !keys.beyond(regions[a.choice].end, s.start) }
		for newest.Len() > 0 && ended(newest.items[0]) {
			heap.Pop(newest)
		}
		if newest.Len() > 0 && newest.items[0].version > s.version {
			note(i, newest.items[0].choice)
		}
		for oldest.Len() > 0 && (ended(oldest.items[0]) || oldest.items[0].version < s.version) {
			if top, ok := heap.Pop(oldest).(active); ok && !ended(top) {
				note(top.choice, i)
			}
		}
		heap.Push(newest, active{s.version, i})
		heap.Push(oldest, active{s.version, i})
	}
	return by
}

// dropOutdated leaves the regions that no newer one overlaps.
func (p *Plan) dropOutdated(regions []choice, order []uint32, keys *keyTable) []uint32 {
	by := outdated(regions, order, keys)
	kept := order[:0]
	for _, i := range order {
		newer, old := by[i]
		if !old {
			kept = append(kept, i)
			continue
		}
		p.Dropped = append(p.Dropped, Overlap{
			Region: cluster.RegionID(regions[i].region), Version: regions[i].version, Keys: regions[i].keyRange(keys),
			By: cluster.RegionID(regions[newer].region), ByVersion: regions[newer].version,
		})
	}
	return kept
}

// tile is the error that shows where the regions do not cover the key space exactly once, and what was dropped
// there or has a tombstone.
func (p *Plan) tile(regions []choice, order []uint32, keys *keyTable) error {
	ranges := make([]cluster.KeyRange, 0, len(order))
	for _, i := range order {
		ranges = append(ranges, regions[i].keyRange(keys))
	}
	err := cluster.Tile(ranges, failure.MaxListed)
	if err == nil {
		return nil
	}
	var more []string
	for _, i := range around(regions, order, keys) {
		more = append(more,
			fmt.Sprintf("region %d %s of version %d", regions[i].region, regions[i].keyRange(keys), regions[i].version))
	}
	for i := range p.Dropped {
		more = append(more, p.Dropped[i].String())
	}
	for _, t := range p.Tombstones {
		more = append(more, fmt.Sprintf("region %s %s is a tombstone on store %s", t.Region, t.Keys, t.Store))
	}
	if len(more) > 0 {
		err = fmt.Errorf("%w: %s", err, failure.List(more))
	}
	return &failure.Error{
		Op: "plan recovery", Kind: failure.Corrupt, Err: err,
		Hint: "restore another backup: a split or merge fell into the cut of this one, and to continue would crash " +
			"the stores",
	}
}

// around lists the regions on both sides of the first faults.
func around(regions []choice, order []uint32, keys *keyTable) []uint32 {
	var out []uint32
	for n := 0; n < len(order) && len(out) < failure.MaxListed; n++ {
		s := &regions[order[n]]
		broken := n == 0 && s.start != 0 || n == len(order)-1 && s.end != 0 ||
			s.end != 0 && !keys.beyond(s.end, s.start)
		if n+1 < len(order) {
			broken = broken || s.end == 0 || s.end != regions[order[n+1]].start
		}
		if n > 0 {
			before := regions[order[n-1]].end
			broken = broken || before == 0 || before != s.start
		}
		if broken {
			out = append(out, order[n])
		}
	}
	return out
}

func (s *choice) keyRange(keys *keyTable) cluster.KeyRange {
	return cluster.KeyRange{Start: keys.bytes(s.start), End: keys.bytes(s.end)}
}
