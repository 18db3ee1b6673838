package tikvtest_test

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// tinyPD is as much of a PD as stores need.
type tinyPD struct {
	mu           sync.Mutex
	clusterID    uint64
	nextID       uint64
	lastTS       uint64
	bootstrapped bool
	recovering   bool
	stores       map[uint64]*metapb.Store
	leaders      map[uint64]*pdpb.RegionHeartbeatRequest
	resolved     map[uint64]uint64
	reports      map[uint64]int // of a resolved ts, by store
	operators    map[uint64]*pdpb.RegionHeartbeatResponse
}

func newTinyPD(clusterID uint64) *tinyPD {
	return &tinyPD{
		clusterID: clusterID, nextID: 1, stores: map[uint64]*metapb.Store{},
		leaders: map[uint64]*pdpb.RegionHeartbeatRequest{}, resolved: map[uint64]uint64{},
		reports: map[uint64]int{}, operators: map[uint64]*pdpb.RegionHeartbeatResponse{},
	}
}

func (p *tinyPD) header() *pdpb.ResponseHeader { return &pdpb.ResponseHeader{ClusterId: p.clusterID} }

func (p *tinyPD) IsBootstrapped(context.Context, *pdpb.IsBootstrappedRequest) (*pdpb.IsBootstrappedResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &pdpb.IsBootstrappedResponse{Header: p.header(), Bootstrapped: p.bootstrapped}, nil
}

func (p *tinyPD) Bootstrap(_ context.Context, req *pdpb.BootstrapRequest) (*pdpb.BootstrapResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.header()
	if p.bootstrapped {
		h.Error = &pdpb.Error{Type: pdpb.ErrorType_ALREADY_BOOTSTRAPPED}
	}
	p.bootstrapped = true
	p.stores[req.Store.Id] = req.Store
	return &pdpb.BootstrapResponse{Header: h}, nil
}

func (p *tinyPD) AllocID(context.Context, *pdpb.AllocIDRequest) (*pdpb.AllocIDResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.nextID++
	return &pdpb.AllocIDResponse{Header: p.header(), Id: p.nextID}, nil
}

func (p *tinyPD) PutStore(_ context.Context, req *pdpb.PutStoreRequest) (*pdpb.PutStoreResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.header()
	if !p.bootstrapped {
		h.Error = &pdpb.Error{Type: pdpb.ErrorType_NOT_BOOTSTRAPPED}
	}
	p.stores[req.Store.Id] = req.Store
	return &pdpb.PutStoreResponse{Header: h}, nil
}

func (p *tinyPD) StoreHeartbeat(context.Context, *pdpb.StoreHeartbeatRequest) (*pdpb.StoreHeartbeatResponse, error) {
	return &pdpb.StoreHeartbeatResponse{Header: p.header()}, nil
}

func (p *tinyPD) AskBatchSplit(_ context.Context, req *pdpb.AskBatchSplitRequest) (*pdpb.AskBatchSplitResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	resp := &pdpb.AskBatchSplitResponse{Header: p.header()}
	for range req.SplitCount {
		p.nextID++
		id := &pdpb.SplitID{NewRegionId: p.nextID}
		for range req.Region.Peers {
			p.nextID++
			id.NewPeerIds = append(id.NewPeerIds, p.nextID)
		}
		resp.Ids = append(resp.Ids, id)
	}
	return resp, nil
}

func (p *tinyPD) ReportMinResolvedTS(_ context.Context, req *pdpb.ReportMinResolvedTsRequest) (*pdpb.ReportMinResolvedTsResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resolved[req.StoreId] = req.MinResolvedTs
	p.reports[req.StoreId]++
	return &pdpb.ReportMinResolvedTsResponse{Header: p.header()}, nil
}

func (p *tinyPD) IsSnapshotRecovering(context.Context, *pdpb.IsSnapshotRecoveringRequest) (*pdpb.IsSnapshotRecoveringResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &pdpb.IsSnapshotRecoveringResponse{Header: p.header(), Marked: p.recovering}, nil
}

func (p *tinyPD) ReportRegion(_ context.Context, req *pdpb.RegionHeartbeatRequest) (*pdpb.RegionHeartbeatResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaders[req.Region.Id] = req
	return p.operators[req.Region.Id], nil
}

func (p *tinyPD) GetRegion(context.Context, *pdpb.GetRegionRequest) (*pdpb.GetRegionResponse, error) {
	return &pdpb.GetRegionResponse{Header: p.header(), Region: &metapb.Region{Id: 1}}, nil
}

func (p *tinyPD) FreshTS(context.Context) (uint64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastTS = max(p.lastTS+1, uint64(time.Now().UnixMilli())<<18)
	return p.lastTS, nil
}

// minResolved is the cluster's resolved ts, 0 until n stores have reported.
func (p *tinyPD) minResolved(n int) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.resolved) < n {
		return 0
	}
	lowest := ^uint64(0)
	for _, ts := range p.resolved {
		lowest = min(lowest, ts)
	}
	return lowest
}

// reported is how often each store has reported its resolved ts.
func (p *tinyPD) reported() map[uint64]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.reports)
}

func (p *tinyPD) setRecovering(marked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.recovering = marked
}

func (p *tinyPD) raiseTS(ts uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastTS = max(p.lastTS, ts)
}

func (p *tinyPD) setOperator(region uint64, op *pdpb.RegionHeartbeatResponse) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.operators[region] = op
}
