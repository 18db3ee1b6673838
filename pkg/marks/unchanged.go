package marks

import (
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// Of makes a region's mark from PD's view of the region and a store's raft state. There is none unless the region has a
// leader, the store knows that its last entry is committed, and neither the range nor the members are changing.
func Of(region *cluster.Region, state tikv.RaftState) (Mark, bool) {
	if region.Leader.Store == 0 || region.Joint {
		return Mark{}, false
	}
	if !state.Settled || state.Version != region.Version || state.Commit != state.Last {
		return Mark{}, false
	}
	return Mark{Region: region.ID, Version: state.Version, Term: state.Term, Index: state.Last}, true
}

// Log is what the stores of a restored cluster report about one region before any leader is elected.
type Log struct {
	Region  cluster.RegionID
	Version uint64 // of every peer, if Even
	Even    bool   // all peers have the same version
	Term    uint64 // the largest of any peer
	Longest uint64 // the largest last index of any peer
	Index   uint64 // the planned leader's last index
}

// Unchanged reports whether the region's log still ends at the mark, as far as the logs show; locks are checked
// separately. Conditions are numbered as in docs/marks.md:
//
//  1. every peer has the mark's id and version: nothing was split off or merged in;
//  2. no peer has an entry after the mark's;
//  3. no peer has a later term: no peer has campaigned since;
//  4. the planned leader has all entries up to the mark's.
func (m Mark) Unchanged(l Log) bool {
	return m.Region == l.Region && m.Version == l.Version && l.Even &&
		l.Longest <= m.Index &&
		l.Term <= m.Term &&
		l.Index == m.Index
}
