package tikvtest

import (
	"context"
	"fmt"

	"github.com/pingcap/kvproto/pkg/debugpb"
	"github.com/pingcap/kvproto/pkg/eraftpb"
	"github.com/pingcap/kvproto/pkg/raft_serverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// debugService serves what a backup uses of debugpb.Debug.
type debugService struct {
	debugpb.UnimplementedDebugServer
	s *Store
}

// RegionInfo implements debugpb.DebugServer: the local states of the region as they are on the store's devices. TiKV reads
// the raft state first and the region's after it, not at one instant, and does not check whether it leads.
func (d *debugService) RegionInfo(ctx context.Context, req *debugpb.RegionInfoRequest) (*debugpb.RegionInfoResponse, error) {
	k := d.s.strikeAt(ctx, "RegionInfo")
	if err := k.before(); err != nil {
		return nil, err
	}
	p := d.s.peer(req.RegionId)
	if p == nil {
		return nil, status.Error(codes.NotFound, fmt.Sprintf("info for region %d", req.RegionId))
	}
	raft, err := d.s.raftStateOf(ctx, p)
	if err != nil {
		return nil, err
	}
	v := p.look()
	local := &raft_serverpb.RegionLocalState{Region: v.region}
	if v.merge != nil {
		local.State = raft_serverpb.PeerState_Merging
		local.MergeState = &raft_serverpb.MergeState{Commit: v.merge.commit, Target: v.merge.target}
	}
	if v.destroyed {
		local.State = raft_serverpb.PeerState_Tombstone
	}
	return &debugpb.RegionInfoResponse{
		RaftLocalState: raft, RegionLocalState: local, RaftApplyState: &raft_serverpb.RaftApplyState{AppliedIndex: v.applied},
	}, k.answer()
}

// raftStateOf reads a peer's raft state as it is on the store's device, in the worker that owns it.
func (s *Store) raftStateOf(ctx context.Context, p *peer) (*raft_serverpb.RaftLocalState, error) {
	if s.opts.Static {
		v := p.look()
		return raftStatePB(v.term, v.vote, v.lastIndex, v.lastIndex), nil
	}
	found := make(chan *raft_serverpb.RaftLocalState, 1)
	s.raft.post(raftTask{fn: func(*peer) {
		state := p.onDevice
		if p.node == nil { // it is being made
			log := s.raft.log.region(p.regionID)
			state = logState{log.hard, log.last()}
		}
		found <- raftStatePB(state.hard.Term, state.hard.Vote, state.hard.Commit, state.last)
	}})
	select {
	case state := <-found:
		return state, nil
	case <-s.done:
		return nil, errConnectionLost
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

func raftStatePB(term, vote, commit, last uint64) *raft_serverpb.RaftLocalState {
	return &raft_serverpb.RaftLocalState{
		HardState: &eraftpb.HardState{Term: term, Vote: vote, Commit: commit}, LastIndex: last,
	}
}
