package pdtest

import (
	"context"

	"github.com/pingcap/kvproto/pkg/pdpb"
)

// GetRegion is the region that holds a key.
func (s *Server) GetRegion(_ context.Context, req *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	return s.regionAnswer(func() *region { return s.disk.regions.at(req.GetRegionKey()) }), nil
}

// GetPrevRegion is the region before the one that holds a key.
func (r *rpcServer) GetPrevRegion(_ context.Context, req *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	return r.regionAnswer(func() *region { return r.disk.regions.previous(req.GetRegionKey()) }), nil
}

// GetRegionByID is a region by its id.
func (r *rpcServer) GetRegionByID(_ context.Context, req *pdpb.GetRegionByIDRequest) (*pdpb.GetRegionResponse, error) {
	return r.regionAnswer(func() *region { return r.disk.regions.byID[req.GetRegionId()] }), nil
}

// regionAnswer is empty, without an error, for a region that PD does not know.
func (s *Server) regionAnswer(find func() *region) *pdpb.GetRegionResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.disk.bootstrapped {
		return &pdpb.GetRegionResponse{Header: s.notBootstrapped()}
	}
	found := find()
	if found == nil {
		return &pdpb.GetRegionResponse{Header: s.ok()}
	}
	return &pdpb.GetRegionResponse{
		Header: s.ok(), Region: found.meta, Leader: found.leader, DownPeers: found.down, PendingPeers: found.pending,
	}
}

// ScanRegions lists the regions of a range, those without a leader with an empty one.
func (r *rpcServer) ScanRegions(_ context.Context, req *pdpb.ScanRegionsRequest) (*pdpb.ScanRegionsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.disk.bootstrapped {
		return &pdpb.ScanRegionsResponse{Header: r.notBootstrapped()}, nil
	}
	answer := &pdpb.ScanRegionsResponse{Header: r.ok()}
	for _, found := range r.disk.regions.scan(req.GetStartKey(), req.GetEndKey(), int(req.GetLimit())) {
		if r.hiddenLocked(found) {
			continue
		}
		m := found.message()
		answer.Regions = append(answer.Regions, m)
		answer.RegionMetas = append(answer.RegionMetas, m.GetRegion())
		answer.Leaders = append(answer.Leaders, m.GetLeader())
	}
	return answer, nil
}

// BatchScanRegions lists the regions of several ranges, each region once.
func (r *rpcServer) BatchScanRegions(ctx context.Context, req *pdpb.BatchScanRegionsRequest) (*pdpb.BatchScanRegionsResponse, error) {
	if !r.cfg.since(batchSince) {
		return r.unimplemented.BatchScanRegions(ctx, req)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.disk.bootstrapped {
		return &pdpb.BatchScanRegionsResponse{Header: r.notBootstrapped()}, nil
	}
	answer := &pdpb.BatchScanRegionsResponse{Header: r.ok()}
	limit := int(req.GetLimit())
	for _, keys := range req.GetRanges() {
		for _, found := range r.disk.regions.scan(keys.GetStartKey(), keys.GetEndKey(), 0) {
			if limit > 0 && len(answer.Regions) >= limit {
				return answer, nil
			}
			if last := len(answer.Regions) - 1; last >= 0 && answer.Regions[last].GetRegion().GetId() == found.meta.GetId() {
				continue
			}
			answer.Regions = append(answer.Regions, found.message())
		}
	}
	if req.GetContainAllKeyRange() && !r.coversLocked(req.GetRanges()) {
		return &pdpb.BatchScanRegionsResponse{
			Header: r.header(pdpb.ErrorType_REGIONS_NOT_CONTAIN_ALL_KEY_RANGE, "found regions not contain all key range"),
		}, nil
	}
	return answer, nil
}

// coversLocked reports whether the regions leave no hole in any of the ranges.
func (r *rpcServer) coversLocked(ranges []*pdpb.KeyRange) bool {
	for _, keys := range ranges {
		at := keys.GetStartKey()
		for {
			found := r.disk.regions.at(at)
			if found == nil {
				return false
			}
			at = found.meta.GetEndKey()
			if len(at) == 0 || !before(at, keys.GetEndKey()) {
				break
			}
		}
	}
	return true
}
