package pdtest

import (
	"context"
	"strings"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	logicalBits = 18
	// tsoWindow is how far ahead PD saves: a restart jumps to the end of it.
	tsoWindow = 3 * time.Second
	idStep    = 1000 // ids reserved at a time: a restart skips the rest
)

// FreshTS gives out one timestamp.
func (s *Server) FreshTS(context.Context) (uint64, error) {
	if err := s.lock(); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	ts, err := s.takeTSLocked(1)
	if err != nil {
		return 0, err
	}
	return compose(ts.GetPhysical(), ts.GetLogical()), nil
}

func compose(physical, logical int64) uint64 { return uint64(physical)<<logicalBits + uint64(logical) }

// takeTSLocked gives out count timestamps; the answer is the last one.
func (s *Server) takeTSLocked(count uint32) (*pdpb.Timestamp, error) {
	m := s.mem
	if m.broken {
		return nil, status.Error(codes.Unknown, "[PD:tso:ErrGenerateTimestamp]generate timestamp failed, timestamp in memory isn't initialized")
	}
	if now := s.now().UnixMilli(); now > m.physical {
		m.physical, m.logical = now, 0
	}
	m.logical += int64(max(count, 1))
	if m.logical >= 1<<logicalBits {
		m.physical++
		m.logical = int64(max(count, 1))
	}
	if m.physical >= s.disk.tsoSaved {
		s.disk.tsoSaved = m.physical + tsoWindow.Milliseconds()
	}
	return &pdpb.Timestamp{Physical: m.physical, Logical: m.logical}, nil
}

// resetTSLocked is POST admin/reset-ts. It returns PD's refusal, or "".
func (s *Server) resetTSLocked(ts uint64, force bool) string {
	const refusal = "[PD:tso:ErrResetUserTimestamp]reset user timestamp failed, "
	now, err := s.takeTSLocked(1)
	if err != nil {
		return err.Error()
	}
	physical, logical := int64(ts>>logicalBits), int64(ts&(1<<logicalBits-1))
	if ts <= compose(now.GetPhysical(), now.GetLogical()) {
		if force {
			return ""
		}
		return refusal + "the specified ts is smaller than now"
	}
	if !force && physical-now.GetPhysical() >= s.durationConfigLocked("pd-server.max-gap-reset-ts").Milliseconds() {
		return refusal + "the specified ts is too larger than now"
	}
	s.mem.physical, s.mem.logical = physical, logical
	s.disk.tsoSaved = physical + tsoWindow.Milliseconds()
	return ""
}

// AllocID gives out ids, one if count is 0; the answer's id is the last.
func (s *Server) AllocID(_ context.Context, req *pdpb.AllocIDRequest) (*pdpb.AllocIDResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	count := max(req.GetCount(), 1)
	var id uint64
	for range count {
		id = s.allocLocked()
	}
	return &pdpb.AllocIDResponse{Header: s.ok(), Id: id, Count: count}, nil
}

func (s *Server) allocLocked() uint64 {
	m := s.mem
	if m.allocBase == m.allocEnd {
		m.allocEnd += idStep
		s.disk.allocEnd = m.allocEnd
	}
	m.allocBase++
	return m.allocBase
}

// setAllocBaseLocked makes base+1 the next id, lower or not: PD does not look.
func (s *Server) setAllocBaseLocked(base uint64) {
	s.mem.allocBase, s.mem.allocEnd = base, base
	s.disk.allocEnd = base
}

// NextID is the id that AllocID gives out next.
func (s *Server) NextID() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mem.allocBase + 1
}

// AskBatchSplit gives out the ids for a split, unless splits are switched off.
func (s *Server) AskBatchSplit(_ context.Context, req *pdpb.AskBatchSplitRequest) (*pdpb.AskBatchSplitResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if !s.disk.bootstrapped {
		return &pdpb.AskBatchSplitResponse{Header: s.notBootstrapped()}, nil
	}
	if !strings.EqualFold(s.configLocked("schedule.enable-tikv-split-region"), "true") {
		return &pdpb.AskBatchSplitResponse{Header: s.header(pdpb.ErrorType_UNKNOWN, "tikv split region is disabled")}, nil
	}
	answer := &pdpb.AskBatchSplitResponse{Header: s.ok()}
	for range max(req.GetSplitCount(), 1) {
		id := &pdpb.SplitID{NewRegionId: s.allocLocked()}
		for range req.GetRegion().GetPeers() {
			id.NewPeerIds = append(id.NewPeerIds, s.allocLocked())
		}
		answer.Ids = append(answer.Ids, id)
	}
	return answer, nil
}

// IsSnapshotRecovering reads the recovering mark.
func (s *Server) IsSnapshotRecovering(context.Context, *pdpb.IsSnapshotRecoveringRequest) (*pdpb.IsSnapshotRecoveringResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return &pdpb.IsSnapshotRecoveringResponse{Header: s.ok(), Marked: s.disk.recovering}, nil
}

// Recovering reads the recovering mark, whether the server is up or not.
func (s *Server) Recovering() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.disk.recovering
}
