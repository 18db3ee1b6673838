package flashstore

import (
	"context"
	"errors"
	"io"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
)

// recoverService serves recovery mode. All peers have the same log, so that any may lead.
type recoverService struct {
	recoverdata.UnimplementedRecoverDataServer
	s *Store
}

// ReadRegionMeta implements recover_data.RecoverDataServer.
func (r *recoverService) ReadRegionMeta(_ *recoverdata.ReadRegionMetaRequest, stream recoverdata.RecoverData_ReadRegionMetaServer) error {
	for _, region := range r.s.cfg.Regions {
		largest := uint64(0)
		for _, p := range region.Peers {
			largest = max(largest, p.Id)
		}
		err := stream.Send(&recoverdata.RegionMeta{
			RegionId: region.Id, PeerId: largest, LastLogTerm: r.s.cfg.Term, LastIndex: r.s.last(region.Id), Version: region.RegionEpoch.Version,
			StartKey: region.StartKey, EndKey: region.EndKey,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RecoverRegion implements recover_data.RecoverDataServer. The leaders are there at once; the answer takes until
// the caller goes away, as TiKV's takes longer than a measurement.
func (r *recoverService) RecoverRegion(stream recoverdata.RecoverData_RecoverRegionServer) error {
	var led []*metapb.Region
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if !req.AsLeader {
			continue
		}
		if region := r.s.lead(req.RegionId); region != nil {
			led = append(led, region)
		}
	}
	for _, region := range led {
		if err := r.s.report(stream.Context(), region); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// lead makes the store lead a region.
func (s *Store) lead(id uint64) *metapb.Region {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.regions[id]
	if st == nil {
		return nil
	}
	st.leads = true
	return st.region
}

// report reports a leader to PD.
func (s *Store) report(ctx context.Context, region *metapb.Region) error {
	for _, p := range region.Peers {
		if p.StoreId != s.cfg.ID {
			continue
		}
		_, err := s.cfg.PD.ReportRegion(ctx, &pdpb.RegionHeartbeatRequest{
			Header: &pdpb.RequestHeader{ClusterId: s.cfg.PD.ClusterID()}, Region: region, Leader: p, Term: 7, ApproximateSize: 96,
		})
		return err
	}
	return nil
}

// WaitApply implements recover_data.RecoverDataServer: all is applied.
func (r *recoverService) WaitApply(context.Context, *recoverdata.WaitApplyRequest) (*recoverdata.WaitApplyResponse, error) {
	return &recoverdata.WaitApplyResponse{}, nil
}
