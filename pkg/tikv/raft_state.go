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

// RaftState is what a store has written down of a region's raft group: its own peer's view, not the group's.
type RaftState struct {
	Term   uint64 // of the hard state
	Last   uint64 // index of the last entry of the log
	Commit uint64 // index of the last entry that the store knows to be committed
	// Applied is the index of the last entry in the store's data; it may be newer than what is on disk. Above Last it
	// says that the store has applied entries that its own log does not have (EarlyApply).
	Applied uint64
	Version uint64 // of the region, as far as the store has applied the log
	// Settled is whether the peer is an ordinary one of a region whose members do not change at the moment: no merge,
	// no snapshot being applied, no joint consensus, not removed.
	Settled bool
}

// Marker reads what a mark of a region is made of.
type Marker interface {
	// RaftState reads what the store has on disk of its peer of the region. The parts are read one after the other, and
	// not at one instant. A region of which the store has nothing is NotFound; a store without the service is
	// Unready. Nothing is changed, and the region's leader is not asked: the store may have lost the leadership.
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
