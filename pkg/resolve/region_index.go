package resolve

import (
	"bytes"
	"slices"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// regionIndex finds the regions that PD lists for a key.
type regionIndex []cluster.Region // by start key

func newRegionIndex(regions []cluster.Region) regionIndex {
	byStart := func(a, b cluster.Region) int { return bytes.Compare(a.Keys.Start, b.Keys.Start) }
	if slices.IsSortedFunc(regions, byStart) {
		return regions
	}
	return slices.SortedFunc(slices.Values(regions), byStart)
}

// covers reports whether regions newer than the planned one, each with a leader, cover its range.
func (x regionIndex) covers(l *plan.Leader) bool {
	at, found := slices.BinarySearchFunc(x, l.Keys.Start, func(r cluster.Region, start cluster.EncodedKey) int {
		return bytes.Compare(r.Keys.Start, start)
	})
	if !found {
		at--
	}
	if at < 0 {
		return false
	}
	for reach := l.Keys.Start; at < len(x); at++ {
		r := &x[at]
		if !r.Keys.Contains(reach) || r.Version <= l.Version || r.Leader.Store == 0 || ledByWitness(r) {
			return false
		}
		if reach = r.Keys.End; len(reach) == 0 || len(l.Keys.End) > 0 && bytes.Compare(reach, l.Keys.End) >= 0 {
			return true
		}
	}
	return false
}
