package marks

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// Of makes the mark of a region, as PD lists it, of what a store has of it. There is none unless the store knows that
// its last entry is committed, and unless both see a leader and nothing happen to the region's range or members.
func Of(region *cluster.Region, state tikv.RaftState) (Mark, bool) {
	if region.Leader.Store == 0 || region.Joint {
		return Mark{}, false
	}
	if !state.Settled || state.Version != region.Version || state.Commit != state.Last {
		return Mark{}, false
	}
	return Mark{Region: region.ID, Version: state.Version, Term: state.Term, Index: state.Last}, true
}

// Log is what the stores of a restored cluster say about one region, before any leader is elected.
type Log struct {
	Region  cluster.RegionID
	Version uint64 // that every peer has; see Even
	Even    bool   // all peers agree about the version
	Term    uint64 // the largest of any peer
	Longest uint64 // the largest last index of any peer
	Index   uint64 // the planned leader's last index
}

// Unchanged reports whether the region's log ends where it did at the mark, as far as the logs show; the locks are
// checked apart from this. The numbers are those of the conditions in docs/marks.md:
//
//  1. id and version are the mark's on every peer: nothing was split off, and nothing merged in;
//  2. no peer has an entry above the mark's;
//  3. no peer has seen a later term: nobody has been elected since, or tried;
//  4. the planned leader has all entries up to the mark's.
func (m Mark) Unchanged(l Log) bool {
	return m.Region == l.Region && m.Version == l.Version && l.Even &&
		l.Longest <= m.Index &&
		l.Term <= m.Term &&
		l.Index == m.Index
}
