package tikvtest

import (
	"context"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/tikvpb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// KvFlush implements tikvpb.TikvServer.
func (k *kvService) KvFlush(ctx context.Context, req *kvrpcpb.FlushRequest) (resp *kvrpcpb.FlushResponse, err error) {
	keys := make([][]byte, len(req.Mutations))
	for i, m := range req.Mutations {
		keys[i] = mvcc.EncodeKey(m.Key)
	}
	e, err := k.s.write(ctx, kvCall{name: "KvFlush", context: req.Context, keys: keys},
		func(r mvcc.Reader, _ *metapb.Region) (muts []mvcc.Mutation) {
			resp, muts = mvcc.Flush(r, req)
			return muts
		})
	if e != nil {
		resp = &kvrpcpb.FlushResponse{RegionError: e}
	}
	return resp, err
}

// KvBufferBatchGet implements tikvpb.TikvServer.
func (k *kvService) KvBufferBatchGet(
	ctx context.Context, req *kvrpcpb.BufferBatchGetRequest,
) (resp *kvrpcpb.BufferBatchGetResponse, err error) {
	e, err := k.s.read(ctx, kvCall{name: "KvBufferBatchGet", context: req.Context, keys: encodeKeys(req.Keys...), readTS: req.Version},
		func(r mvcc.Reader, _ *metapb.Region) { resp = mvcc.BufferBatchGet(r, req) })
	if e != nil {
		resp = &kvrpcpb.BufferBatchGetResponse{RegionError: e}
	}
	return resp, err
}

// BroadcastTxnStatus implements tikvpb.TikvServer.
func (k *kvService) BroadcastTxnStatus(_ context.Context, req *kvrpcpb.BroadcastTxnStatusRequest) (*kvrpcpb.BroadcastTxnStatusResponse, error) {
	for _, status := range req.TxnStatus {
		k.s.flushing.note(status)
	}
	return &kvrpcpb.BroadcastTxnStatusResponse{}, nil
}

// dispatchPipelined carries out one request of a batch that only pipelined transactions make.
func dispatchPipelined(
	ctx context.Context, k tikvpb.TikvServer, req *tikvpb.BatchCommandsRequest_Request,
) (resp *tikvpb.BatchCommandsResponse_Response, err error) {
	resp = &tikvpb.BatchCommandsResponse_Response{}
	switch c := req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Flush:
		var r tikvpb.BatchCommandsResponse_Response_Flush
		r.Flush, err = k.KvFlush(ctx, c.Flush)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_BufferBatchGet:
		var r tikvpb.BatchCommandsResponse_Response_BufferBatchGet
		r.BufferBatchGet, err = k.KvBufferBatchGet(ctx, c.BufferBatchGet)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_BroadcastTxnStatus:
		var r tikvpb.BatchCommandsResponse_Response_BroadcastTxnStatus
		r.BroadcastTxnStatus, err = k.BroadcastTxnStatus(ctx, c.BroadcastTxnStatus)
		resp.Cmd = &r
	default:
		return dispatchFlashback(ctx, k, req)
	}
	return resp, err
}
