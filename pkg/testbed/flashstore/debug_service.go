package flashstore

import (
	"context"
	"fmt"

	"github.com/pingcap/kvproto/pkg/debugpb"
	"github.com/pingcap/kvproto/pkg/eraftpb"
	"github.com/pingcap/kvproto/pkg/raft_serverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// debugService shows where the raft logs end. No peer is ahead of its own: what is applied is what the log has.
type debugService struct {
	debugpb.UnimplementedDebugServer
	s *Store
}

// RegionInfo implements debugpb.DebugServer.
func (d *debugService) RegionInfo(_ context.Context, req *debugpb.RegionInfoRequest) (*debugpb.RegionInfoResponse, error) {
	d.s.mu.Lock()
	st := d.s.regions[req.RegionId]
	d.s.mu.Unlock()
	if st == nil {
		return nil, status.Error(codes.NotFound, fmt.Sprintf("info for region %d", req.RegionId))
	}
	last := d.s.last(req.RegionId)
	return &debugpb.RegionInfoResponse{
		RaftLocalState:   &raft_serverpb.RaftLocalState{HardState: &eraftpb.HardState{Term: d.s.cfg.Term, Commit: last}, LastIndex: last},
		RegionLocalState: &raft_serverpb.RegionLocalState{Region: st.region},
		RaftApplyState:   &raft_serverpb.RaftApplyState{AppliedIndex: last},
	}, nil
}

// last is the index of the last entry of a region's log.
func (s *Store) last(region uint64) uint64 {
	if s.cfg.Longer != nil && s.cfg.Longer(region) {
		return s.cfg.Index + 1
	}
	return s.cfg.Index
}
