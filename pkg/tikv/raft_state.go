package tikv

import (
	"context"

	"github.com/pingcap/kvproto/pkg/debugpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/raft_serverpb"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// hintDebug is for a store that does not serve TiKV's Debug service.
const hintDebug = "allow the Debug service on the store's port (TiKV serves it by default), or run with --marks=off"

// RaftState is a store's persisted state of its peer in a region's raft group: the peer's view, not the group's.
type RaftState struct {
	Term   uint64 // of the hard state
	Last   uint64 // index of the last entry of the log
	Commit uint64 // index of the last entry known to be committed
	// Applied is the index of the last entry in the store's data; it may be ahead of what is on disk. Above Last, the
	// store has applied entries that its own log lacks (EarlyApply).
	Applied uint64
	Version uint64 // of the region, as far as the store has applied the log
	// Settled is whether the peer is an ordinary one of a region whose members are not changing: no merge, no snapshot
	// being applied, no joint consensus, not removed.
	Settled bool
}

// Marker reads what a region's mark consists of.
type Marker interface {
	// RaftState reads the persisted state of the store's peer of the region. Its parts are read one after the other,
	// not at one instant. A region without a peer on the store is NotFound; a store without the service is Unready. It
	// is read-only and does not involve the region's leader, which may be another store by now.
	RaftState(ctx context.Context, address string, region cluster.RegionID) (RaftState, error)
}

// RaftState asks TiKV's Debug service, which is on the store's ordinary port, for the region's local states.
func (c *Client) RaftState(ctx context.Context, address string, region cluster.RegionID) (RaftState, error) {
	const op = "read raft state"
	conn, err := c.connection(address)
	if err != nil {
		return RaftState{}, err
	}
	info, err := debugpb.NewDebugClient(conn).RegionInfo(ctx, &debugpb.RegionInfoRequest{RegionId: uint64(region)})
	if err != nil {
		return RaftState{}, translate(ctx, err, op, address, hintDebug)
	}
	raft, local := info.GetRaftLocalState(), info.GetRegionLocalState()
	return RaftState{
		Term: raft.GetHardState().GetTerm(), Last: raft.GetLastIndex(), Commit: raft.GetHardState().GetCommit(),
		Applied: info.GetRaftApplyState().GetAppliedIndex(),
		Version: local.GetRegion().GetRegionEpoch().GetVersion(), Settled: settled(local),
	}, nil
}

func settled(local *raft_serverpb.RegionLocalState) bool {
	if local.GetRegion() == nil || local.GetState() != raft_serverpb.PeerState_Normal || local.GetMergeState() != nil {
		return false
	}
	for _, p := range local.GetRegion().GetPeers() {
		if p.GetRole() == metapb.PeerRole_IncomingVoter || p.GetRole() == metapb.PeerRole_DemotingVoter {
			return false
		}
	}
	return true
}
