package pdtest

import (
	"context"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// header is an answer's header; kind OK is no error.
func (s *Server) header(kind pdpb.ErrorType, message string) *pdpb.ResponseHeader {
	h := &pdpb.ResponseHeader{ClusterId: s.disk.clusterID}
	if kind != pdpb.ErrorType_OK {
		h.Error = &pdpb.Error{Type: kind, Message: message}
	}
	return h
}

func (s *Server) ok() *pdpb.ResponseHeader { return s.header(pdpb.ErrorType_OK, "") }

func (s *Server) notBootstrapped() *pdpb.ResponseHeader {
	return s.header(pdpb.ErrorType_NOT_BOOTSTRAPPED, "cluster is not bootstrapped")
}

// ReportRegion takes a leader's heartbeat. The answer may carry a TransferLeader, from an operator or from
// balance-leader, or a ChangePeer; a stale region is refused in the answer's header.
func (s *Server) ReportRegion(_ context.Context, req *pdpb.RegionHeartbeatRequest) (*pdpb.RegionHeartbeatResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	answer := &pdpb.RegionHeartbeatResponse{
		Header: s.ok(), RegionId: req.GetRegion().GetId(), RegionEpoch: req.GetRegion().GetRegionEpoch(), TargetPeer: req.GetLeader(),
	}
	if !s.disk.bootstrapped {
		answer.Header = s.notBootstrapped()
		return answer, nil
	}
	leader := req.GetLeader()
	if leader.GetId() == 0 || req.GetRegion().GetId() == 0 {
		answer.Header = s.header(pdpb.ErrorType_UNKNOWN, "invalid request leader")
		return answer, nil
	}
	if store := s.disk.stores[leader.GetStoreId()]; store == nil || store.GetState() == metapb.StoreState_Tombstone {
		answer.Header = s.header(pdpb.ErrorType_UNKNOWN, "invalid store ID "+decimal(leader.GetStoreId())+", not found")
		return answer, nil
	}
	r := &region{
		meta: cloneRegion(req.GetRegion()), leader: leader, term: req.GetTerm(), down: req.GetDownPeers(), pending: req.GetPendingPeers(),
		sizeMiB: max(req.GetApproximateSize()>>20, 1), keys: req.GetApproximateKeys(),
	}
	if err := s.disk.regions.put(r); err != nil {
		answer.Header = s.header(pdpb.ErrorType_UNKNOWN, err.Error())
		return answer, nil
	}
	s.prepareLocked()
	answer.ChangePeer, answer.TransferLeader = s.replicasLocked(r)
	if answer.ChangePeer == nil && answer.TransferLeader == nil {
		answer.TransferLeader = s.scheduleLocked(r)
	}
	return answer, nil
}

// StoreHeartbeat takes a store's statistics.
func (s *Server) StoreHeartbeat(_ context.Context, req *pdpb.StoreHeartbeatRequest) (*pdpb.StoreHeartbeatResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if !s.disk.bootstrapped {
		return &pdpb.StoreHeartbeatResponse{Header: s.notBootstrapped()}, nil
	}
	id := req.GetStats().GetStoreId()
	store := s.disk.stores[id]
	if store == nil {
		return &pdpb.StoreHeartbeatResponse{Header: s.header(pdpb.ErrorType_UNKNOWN, "invalid store ID "+decimal(id)+", not found")}, nil
	}
	if store.GetState() == metapb.StoreState_Tombstone {
		return &pdpb.StoreHeartbeatResponse{Header: s.header(pdpb.ErrorType_STORE_TOMBSTONE, "store is tombstone")}, nil
	}
	c := *store
	c.LastHeartbeat = s.now().UnixNano()
	s.disk.stores[id] = &c
	s.mem.storeStats(id).stats = req.GetStats()
	return &pdpb.StoreHeartbeatResponse{Header: s.ok(), ClusterVersion: s.cfg.Version}, nil
}

// ReportMinResolvedTS takes a store's resolved ts.
func (s *Server) ReportMinResolvedTS(_ context.Context, req *pdpb.ReportMinResolvedTsRequest) (*pdpb.ReportMinResolvedTsResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if !s.disk.bootstrapped {
		return &pdpb.ReportMinResolvedTsResponse{Header: s.notBootstrapped()}, nil
	}
	if s.disk.stores[req.GetStoreId()] == nil {
		return &pdpb.ReportMinResolvedTsResponse{Header: s.header(pdpb.ErrorType_UNKNOWN, "invalid store ID "+decimal(req.GetStoreId())+", not found")}, nil
	}
	// A store's value never falls either: PD drops a lower report.
	stats := s.mem.storeStats(req.GetStoreId())
	stats.resolved = max(stats.resolved, req.GetMinResolvedTs())
	return &pdpb.ReportMinResolvedTsResponse{Header: s.ok()}, nil
}
