package plan_test

import "github.com/tisnap/tisnap/pkg/cluster"

// kind is something that happens to regions, and that must not make one look unchanged that is not.
type kind string

// The kinds that the histories are there for.
const (
	leaderChanged  kind = "another leader was elected"
	staleLeader    kind = "a deposed leader wrote on"
	laggingPeer    kind = "a follower lacks entries of the mark"
	regionSplit    kind = "it was split, or split off"
	regionMerged   kind = "its neighbour was merged in"
	membersChanged kind = "a replica was moved"
	restarted      kind = "a store of it was restarted"
	onePhase       kind = "a one-phase commit"
	asyncCommit    kind = "an asynchronous commit"
	pessimistic    kind = "a lock that does not keep the resolved ts back"
	largeTxn       kind = "a transaction that came in several batches"
)

func allKinds() []kind {
	return []kind{
		leaderChanged, staleLeader, laggingPeer, regionSplit, regionMerged, membersChanged, restarted, onePhase, asyncCommit, pessimistic, largeTxn,
	}
}

// happened is to which regions each kind has happened.
type happened map[kind]map[cluster.RegionID]bool

func (h happened) note(k kind, region cluster.RegionID) {
	if h[k] == nil {
		h[k] = map[cluster.RegionID]bool{}
	}
	h[k][region] = true
}
