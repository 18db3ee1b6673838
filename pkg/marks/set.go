package marks

import (
	"cmp"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Margin is how far the backup ts must be above the timestamp taken after the last mark. The commit ts of an async or
// one-phase commit is the largest timestamp that a store has read at, plus one, and each in a chain of such
// transactions adds one more, so PD may not have issued it yet. A second is 2^18 x 1,000 such steps.
const Margin = time.Second

// After returns the smallest backup ts for which marks that were all read before ts are valid.
func After(ts cluster.TS) cluster.TS {
	return ts + (cluster.MakeTS(time.UnixMilli(Margin.Milliseconds()), 0) - cluster.MakeTS(time.UnixMilli(0), 0))
}

// Mark is where a region's log ended, at a committed entry.
type Mark struct {
	Region  cluster.RegionID
	Version uint64
	Term    uint64 // of the hard state: the log's last entry has this term or an earlier one
	Index   uint64 // of the last entry, which is committed
}

// Set is the marks of a cluster's regions, 32 bytes each. The zero value is empty. A set is immutable.
type Set struct {
	marks []Mark // by region, each once
}

// NewSet makes a set and takes ownership of the slice. It keeps no mark of a region that has several: they contradict
// each other.
func NewSet(list []Mark) *Set {
	slices.SortFunc(list, func(a, b Mark) int { return cmp.Compare(a.Region, b.Region) })
	kept := list[:0]
	for i := 0; i < len(list); {
		n := i + 1
		for n < len(list) && list[n].Region == list[i].Region {
			n++
		}
		if n == i+1 {
			kept = append(kept, list[i])
		}
		i = n
	}
	return &Set{marks: kept}
}

// Len returns the number of marks; 0 if s is nil.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.marks)
}

// Find returns the region's mark.
func (s *Set) Find(region cluster.RegionID) (Mark, bool) {
	if s == nil {
		return Mark{}, false
	}
	i, ok := slices.BinarySearchFunc(s.marks, region,
		func(m Mark, id cluster.RegionID) int { return cmp.Compare(m.Region, id) })
	if !ok {
		return Mark{}, false
	}
	return s.marks[i], true
}

// Same counts the regions with the same version and last index in both sets, which must be of the same cluster: nothing
// was split off, merged in or written to them in between. Terms are ignored: at the same index, a later term wrote
// nothing.
func (s *Set) Same(other *Set) int {
	same, rest := 0, other.list()
	for _, m := range s.list() {
		for len(rest) > 0 && rest[0].Region < m.Region {
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].Region == m.Region && rest[0].Version == m.Version && rest[0].Index == m.Index {
			same++
		}
	}
	return same
}
