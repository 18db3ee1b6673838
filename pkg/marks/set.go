package marks

import (
	"cmp"
	"slices"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// Margin is how far the backup ts has to lie above the timestamp that was taken after the last mark. Asynchronous and
// one-phase commits take their commit ts from the largest timestamp that a store has read at, plus one, and each of a
// chain of such transactions one more: PD may not have given it out yet. A second is 2^18 x 1,000 of these steps.
const Margin = time.Second

// After is the smallest backup ts for which marks count that were all read before ts.
func After(ts cluster.TS) cluster.TS {
	return ts + (cluster.MakeTS(time.UnixMilli(Margin.Milliseconds()), 0) - cluster.MakeTS(time.UnixMilli(0), 0))
}

// Mark is where a region's log ended, at a committed entry.
type Mark struct {
	Region  cluster.RegionID
	Version uint64
	Term    uint64 // of the hard state: the log's last entry is of this term or an earlier one
	Index   uint64 // of the last entry, which is committed
}

// Set is the marks of a cluster's regions, in 32 bytes each. The zero value has none. It is not changed once it is
// made.
type Set struct {
	marks []Mark // by region, each once
}

// NewSet makes a set, and takes the slice. Of several marks of one region none is kept: they contradict each other.
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

// Len is the number of marks; 0 of nil.
func (s *Set) Len() int {
	if s == nil {
		return 0
	}
	return len(s.marks)
}

// Find is the region's mark.
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

// Same is of how many regions both sets say that the log ends at the same entry, and that nothing was split off or
// merged in: between the two nothing was written to them. Both have to be of the same cluster. A term is no part of it:
// who was elected and wrote nothing has written no entry either.
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
