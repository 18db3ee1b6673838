package resolve

import (
	"bytes"
	"slices"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/marks"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
)

// regionState is whether a region has anything to flash back.
type regionState uint8

const (
	changed   regionState = iota // or unknown: it is flashed back
	candidate                    // its log ends where it did at the mark
	unchanged                    // and none of its keys is locked
)

// regionStates has the states of all planned regions. It is safe for concurrent use.
type regionStates struct {
	leaders []plan.Leader // in key order; only their stores change

	mu sync.Mutex
	of []regionState // indexed like leaders
}

// newRegionStates makes candidates of the regions whose logs end where they did at the marks.
func newRegionStates(made *plan.Plan, set *marks.Set) *regionStates {
	v := &regionStates{leaders: made.Leaders, of: make([]regionState, len(made.Leaders))}
	for i, same := range made.Unchanged(set) {
		if same {
			v.of[i] = candidate
		}
	}
	return v
}

// find returns the index of the planned region with exactly these keys, id and version.
func (v *regionStates) find(r cluster.Region) (int, bool) {
	i, ok := slices.BinarySearchFunc(v.leaders, r.Keys.Start, func(l plan.Leader, start cluster.EncodedKey) int {
		return bytes.Compare(l.Keys.Start, start)
	})
	if !ok {
		return 0, false
	}
	l := &v.leaders[i]
	return i, l.Region == r.ID && l.Version == r.Version && bytes.Equal(l.Keys.End, r.Keys.End)
}

// isCandidate reports whether PD's region is a candidate led by the planned leader: the log of another peer was not
// compared.
func (v *regionStates) isCandidate(r cluster.Region) (int, bool) {
	i, ok := v.find(r)
	if !ok || v.leaders[i].Store != r.Leader.Store {
		return 0, false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return i, v.of[i] != changed
}

func (v *regionStates) set(i int, to regionState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.of[i] = to
}

// list returns the indexes of the regions in this state.
func (v *regionStates) list(of regionState) []int {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []int
	for i := range v.of {
		if v.of[i] == of {
			out = append(out, i)
		}
	}
	return out
}

// moved records regions that will be led by another peer than the one compared.
func (v *regionStates) moved(to map[cluster.RegionID]cluster.StoreID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i := range v.leaders {
		if _, moves := to[v.leaders[i].Region]; moves {
			v.of[i] = changed
		}
	}
}
