package pdtest

import (
	"context"
	"errors"
	"io"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// unimplemented answers what PD 8.5 does not know: QueryRegion, GetGCState, SetGCBarrier and others.
type unimplemented struct{ pdpb.UnimplementedPDServer }

// rpcServer is one member's gRPC service. Server's methods are nearer than the unimplemented ones and win.
type rpcServer struct {
	unimplemented
	*Server
	member *member
}

// GetMembers is answered by followers too; there is no leader in it while there is none.
func (r *rpcServer) GetMembers(context.Context, *pdpb.GetMembersRequest) (*pdpb.GetMembersResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.electLocked()
	answer := &pdpb.GetMembersResponse{Header: r.ok()}
	for _, m := range r.members {
		answer.Members = append(answer.Members, m.message())
	}
	if r.leader >= 0 {
		answer.Leader = r.members[r.leader].message()
		answer.EtcdLeader = answer.Leader
	}
	return answer, nil
}

// GetClusterInfo reports that timestamps come from PD itself.
func (r *rpcServer) GetClusterInfo(context.Context, *pdpb.GetClusterInfoRequest) (*pdpb.GetClusterInfoResponse, error) {
	return &pdpb.GetClusterInfoResponse{Header: r.ok(), ServiceModes: []pdpb.ServiceMode{pdpb.ServiceMode_PD_SVC_MODE}}, nil
}

// GetClusterConfig is the cluster's id and replica count.
func (r *rpcServer) GetClusterConfig(context.Context, *pdpb.GetClusterConfigRequest) (*pdpb.GetClusterConfigResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.disk.bootstrapped {
		return &pdpb.GetClusterConfigResponse{Header: r.notBootstrapped()}, nil
	}
	replicas := uint32(r.numberConfigLocked("replication.max-replicas"))
	return &pdpb.GetClusterConfigResponse{Header: r.ok(), Cluster: &metapb.Cluster{Id: r.disk.clusterID, MaxPeerCount: replicas}}, nil
}

// GetMinTS is a fresh timestamp, as without micro-services.
func (r *rpcServer) GetMinTS(context.Context, *pdpb.GetMinTSRequest) (*pdpb.GetMinTSResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ts, err := r.takeTSLocked(1)
	if err != nil {
		return nil, err
	}
	return &pdpb.GetMinTSResponse{Header: r.ok(), Timestamp: ts}, nil
}

// GetExternalTimestamp is always 0: none is ever set.
func (r *rpcServer) GetExternalTimestamp(context.Context, *pdpb.GetExternalTimestampRequest) (*pdpb.GetExternalTimestampResponse, error) {
	return &pdpb.GetExternalTimestampResponse{Header: r.ok()}, nil
}

// LoadGlobalConfig finds nothing: none is ever stored.
func (r *rpcServer) LoadGlobalConfig(context.Context, *pdpb.LoadGlobalConfigRequest) (*pdpb.LoadGlobalConfigResponse, error) {
	return &pdpb.LoadGlobalConfigResponse{Revision: 1}, nil
}

// WatchGlobalConfig never has news.
func (r *rpcServer) WatchGlobalConfig(_ *pdpb.WatchGlobalConfigRequest, stream pdpb.PD_WatchGlobalConfigServer) error {
	<-stream.Context().Done()
	return stream.Context().Err()
}

// ReportBatchSplit is only a notice; the regions come with heartbeats.
func (r *rpcServer) ReportBatchSplit(context.Context, *pdpb.ReportBatchSplitRequest) (*pdpb.ReportBatchSplitResponse, error) {
	return &pdpb.ReportBatchSplitResponse{Header: r.ok()}, nil
}

// ScatterRegion is accepted; peers do not move here.
func (r *rpcServer) ScatterRegion(_ context.Context, req *pdpb.ScatterRegionRequest) (*pdpb.ScatterRegionResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.disk.bootstrapped {
		return &pdpb.ScatterRegionResponse{Header: r.notBootstrapped()}, nil
	}
	for _, id := range append(req.GetRegionsId(), req.GetRegionId()) { //nolint:staticcheck // old clients send it
		if id != 0 {
			_, _ = r.addOperatorLocked("scatter-region", id, 0)
		}
	}
	return &pdpb.ScatterRegionResponse{Header: r.ok(), FinishedPercentage: 100}, nil
}

// GetOperator is the last operator of a region.
func (r *rpcServer) GetOperator(_ context.Context, req *pdpb.GetOperatorRequest) (*pdpb.GetOperatorResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runningLocked(req.GetRegionId())
	op := r.mem.operators[req.GetRegionId()]
	if op == nil {
		return &pdpb.GetOperatorResponse{Header: r.header(pdpb.ErrorType_REGION_NOT_FOUND, "region not found")}, nil
	}
	return &pdpb.GetOperatorResponse{
		Header: r.ok(), RegionId: op.region, Desc: []byte(op.name), Status: op.status, Kind: []byte("leader"),
	}, nil
}

// Tso gives out timestamps until the client or the leadership goes.
func (r *rpcServer) Tso(stream pdpb.PD_TsoServer) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		answer, err := r.tso(stream.Context(), req)
		if err != nil {
			return err
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func (r *rpcServer) tso(ctx context.Context, req *pdpb.TsoRequest) (*pdpb.TsoResponse, error) {
	lost, err := r.strike(ctx, "pd.Tso")
	if err != nil {
		return nil, err
	}
	if err := r.checkHeader(req.GetHeader()); err != nil {
		return nil, err
	}
	if err := r.servingBy(r.member); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	ts, err := r.takeTSLocked(req.GetCount())
	if err == nil {
		err = lost
	}
	if err != nil {
		return nil, err
	}
	return &pdpb.TsoResponse{Header: r.ok(), Count: req.GetCount(), Timestamp: ts}, nil
}

// RegionHeartbeat takes heartbeats of stores over the network and sends what they are to do.
func (r *rpcServer) RegionHeartbeat(stream pdpb.PD_RegionHeartbeatServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	out := make(chan *pdpb.RegionHeartbeatResponse, 64)
	received := make(chan error, 1)
	r.handlers.begin()
	go func() {
		defer r.handlers.end()
		received <- r.receiveHeartbeats(ctx, stream, out)
	}()
	for {
		select {
		case answer := <-out:
			if err := stream.Send(answer); err != nil {
				return err
			}
		case err := <-received:
			return err
		}
	}
}

func (r *rpcServer) receiveHeartbeats(ctx context.Context, stream pdpb.PD_RegionHeartbeatServer, out chan *pdpb.RegionHeartbeatResponse) error {
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := r.servingBy(r.member); err != nil {
			return err
		}
		r.mu.Lock()
		r.mem.streams[req.GetLeader().GetStoreId()] = out
		r.mu.Unlock()
		answer, err := r.ReportRegion(ctx, req)
		if err != nil {
			return err
		}
		// PD is silent when there is nothing to order.
		if answer.GetTransferLeader() == nil && answer.GetHeader().GetError() == nil {
			continue
		}
		select {
		case out <- answer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
