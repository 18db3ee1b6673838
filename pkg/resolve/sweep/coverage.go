package sweep

import (
	"bytes"

	"github.com/tidwall/btree"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Coverage is a set of keys as ranges that neither touch nor overlap. The zero value is not ready: use
// NewCoverage. It is not safe for concurrent use.
type Coverage struct {
	ranges *btree.BTreeG[cluster.KeyRange] // by start
}

// NewCoverage makes the set of all keys of the ranges.
func NewCoverage(ranges ...cluster.KeyRange) *Coverage {
	less := func(a, b cluster.KeyRange) bool { return bytes.Compare(a.Start, b.Start) < 0 }
	c := &Coverage{ranges: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})}
	for _, r := range ranges {
		c.Add(r)
	}
	return c
}

// Add puts all keys of r into the set. A range without keys adds nothing.
func (c *Coverage) Add(r cluster.KeyRange) {
	if empty(r) {
		return
	}
	if before, ok := c.atOrBefore(r.Start); ok && reaches(before.End, r.Start) {
		r = cluster.KeyRange{Start: before.Start, End: laterEnd(before.End, r.End)}
	}
	var merged []cluster.KeyRange
	c.ranges.Ascend(r, func(next cluster.KeyRange) bool {
		if !reaches(r.End, next.Start) {
			return false
		}
		r.End = laterEnd(r.End, next.End)
		merged = append(merged, next)
		return true
	})
	for _, s := range merged {
		c.ranges.Delete(s)
	}
	c.ranges.Set(r)
}

// Contains reports whether all keys of r are in the set.
func (c *Coverage) Contains(r cluster.KeyRange) bool {
	if empty(r) {
		return true
	}
	before, ok := c.atOrBefore(r.Start)
	if !ok || len(before.End) == 0 {
		return ok
	}
	return len(r.End) > 0 && bytes.Compare(r.End, before.End) <= 0
}

// Whole reports whether every key is in the set: from the first, which is empty, to the end of the key space.
func (c *Coverage) Whole() bool { return c.Contains(cluster.KeyRange{}) }

// Missing lists what is not in the set, in key order.
func (c *Coverage) Missing() []cluster.KeyRange {
	var holes []cluster.KeyRange
	var from []byte
	open := true // the keys from `from` on may be missing in the set
	c.ranges.Scan(func(r cluster.KeyRange) bool {
		if len(r.Start) > 0 { // only the first range can start at the beginning
			holes = append(holes, cluster.KeyRange{Start: from, End: r.Start})
		}
		from, open = r.End, len(r.End) > 0
		return true
	})
	if open {
		holes = append(holes, cluster.KeyRange{Start: from})
	}
	return holes
}

// List is the set as the fewest ranges, in key order.
func (c *Coverage) List() []cluster.KeyRange {
	out := make([]cluster.KeyRange, 0, c.ranges.Len())
	c.ranges.Scan(func(r cluster.KeyRange) bool {
		out = append(out, r)
		return true
	})
	return out
}

// atOrBefore is the last range that starts at key or before it.
func (c *Coverage) atOrBefore(key []byte) (found cluster.KeyRange, ok bool) {
	c.ranges.Descend(cluster.KeyRange{Start: key}, func(r cluster.KeyRange) bool {
		found, ok = r, true
		return false
	})
	if ok && len(found.End) > 0 && bytes.Compare(found.End, key) < 0 {
		return cluster.KeyRange{}, false
	}
	return found, ok
}

// empty reports whether a range holds no key.
func empty(r cluster.KeyRange) bool { return len(r.End) > 0 && bytes.Compare(r.Start, r.End) >= 0 }

// reaches reports whether a range that ends at end touches one that starts at start.
func reaches(end, start []byte) bool { return len(end) == 0 || bytes.Compare(end, start) >= 0 }

// laterEnd is the later one of two ends of ranges; the empty one is the end of the key space.
func laterEnd(a, b []byte) []byte {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	if bytes.Compare(a, b) >= 0 {
		return a
	}
	return b
}
