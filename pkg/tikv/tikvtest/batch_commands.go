package tikvtest

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// BatchCommands implements tikvpb.TikvServer.
func (k *kvService) BatchCommands(stream tikvpb.Tikv_BatchCommandsServer) error {
	return ServeBatches(stream, k)
}

// ServeBatches serves BatchCommands by the other calls of a server: requests come in batches and are answered one by one
// as they are ready, in any order. A request that ends in a gRPC error ends the stream, as TiKV cannot report it otherwise.
func ServeBatches(stream tikvpb.Tikv_BatchCommandsServer, k tikvpb.TikvServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	answers := make(chan batchAnswer, 256)
	var running, sender sync.WaitGroup
	sender.Go(func() {
		if err := sendAnswers(stream, answers); err != nil {
			cancel(err)
		}
	})
	err := receiveBatches(ctx, cancel, stream, k, answers, &running)
	if err != nil {
		cancel(err)
	}
	running.Wait()
	close(answers)
	sender.Wait()
	defer cancel(nil)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

type batchAnswer struct {
	id       uint64
	response *tikvpb.BatchCommandsResponse_Response
}

// receiveBatches starts what comes in until the client is done or ctx ends.
func receiveBatches(
	ctx context.Context, fail context.CancelCauseFunc, stream tikvpb.Tikv_BatchCommandsServer, k tikvpb.TikvServer,
	answers chan<- batchAnswer, running *sync.WaitGroup,
) error {
	batches := make(chan *tikvpb.BatchCommandsRequest)
	ended := make(chan error, 1)
	go func() { // it ends with the stream, which ends when the handler returns
		for {
			batch, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case batches <- batch:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case batch := <-batches:
			for i, req := range batch.Requests {
				id := batch.RequestIds[i]
				running.Go(func() {
					resp, err := dispatch(ctx, k, req)
					if err != nil {
						fail(err)
						return
					}
					answers <- batchAnswer{id, resp} // the sender reads until all are done
				})
			}
		}
	}
}

// sendAnswers sends what is ready in one message. After an error it only drains.
func sendAnswers(stream tikvpb.Tikv_BatchCommandsServer, answers <-chan batchAnswer) (err error) {
	for a := range answers {
		if err != nil {
			continue
		}
		out := &tikvpb.BatchCommandsResponse{}
		for more := true; more; {
			out.RequestIds = append(out.RequestIds, a.id)
			out.Responses = append(out.Responses, a.response)
			select {
			case a, more = <-answers:
			default:
				more = false
			}
		}
		err = stream.Send(out)
	}
	return err
}

// dispatch carries out one request of a batch.
func dispatch(
	ctx context.Context, k tikvpb.TikvServer, req *tikvpb.BatchCommandsRequest_Request,
) (resp *tikvpb.BatchCommandsResponse_Response, err error) {
	resp = &tikvpb.BatchCommandsResponse_Response{}
	switch c := req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Get:
		var r tikvpb.BatchCommandsResponse_Response_Get
		r.Get, err = k.KvGet(ctx, c.Get)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_Scan:
		var r tikvpb.BatchCommandsResponse_Response_Scan
		r.Scan, err = k.KvScan(ctx, c.Scan)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_BatchGet:
		var r tikvpb.BatchCommandsResponse_Response_BatchGet
		r.BatchGet, err = k.KvBatchGet(ctx, c.BatchGet)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_ScanLock:
		var r tikvpb.BatchCommandsResponse_Response_ScanLock
		r.ScanLock, err = k.KvScanLock(ctx, c.ScanLock)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_Empty:
		resp.Cmd = &tikvpb.BatchCommandsResponse_Response_Empty{Empty: &tikvpb.BatchCommandsEmptyResponse{TestId: c.Empty.GetTestId()}}
	default:
		return dispatchWrite(ctx, k, req)
	}
	return resp, err
}

func dispatchWrite(
	ctx context.Context, k tikvpb.TikvServer, req *tikvpb.BatchCommandsRequest_Request,
) (resp *tikvpb.BatchCommandsResponse_Response, err error) {
	resp = &tikvpb.BatchCommandsResponse_Response{}
	switch c := req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_Prewrite:
		var r tikvpb.BatchCommandsResponse_Response_Prewrite
		r.Prewrite, err = k.KvPrewrite(ctx, c.Prewrite)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_Commit:
		var r tikvpb.BatchCommandsResponse_Response_Commit
		r.Commit, err = k.KvCommit(ctx, c.Commit)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_Cleanup:
		var r tikvpb.BatchCommandsResponse_Response_Cleanup
		r.Cleanup, err = k.KvCleanup(ctx, c.Cleanup)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_BatchRollback:
		var r tikvpb.BatchCommandsResponse_Response_BatchRollback
		r.BatchRollback, err = k.KvBatchRollback(ctx, c.BatchRollback)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_ResolveLock:
		var r tikvpb.BatchCommandsResponse_Response_ResolveLock
		r.ResolveLock, err = k.KvResolveLock(ctx, c.ResolveLock)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_PessimisticLock:
		var r tikvpb.BatchCommandsResponse_Response_PessimisticLock
		r.PessimisticLock, err = k.KvPessimisticLock(ctx, c.PessimisticLock)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_PessimisticRollback:
		var r tikvpb.BatchCommandsResponse_Response_PessimisticRollback
		r.PessimisticRollback, err = k.KVPessimisticRollback(ctx, c.PessimisticRollback)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_CheckTxnStatus:
		var r tikvpb.BatchCommandsResponse_Response_CheckTxnStatus
		r.CheckTxnStatus, err = k.KvCheckTxnStatus(ctx, c.CheckTxnStatus)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_TxnHeartBeat:
		var r tikvpb.BatchCommandsResponse_Response_TxnHeartBeat
		r.TxnHeartBeat, err = k.KvTxnHeartBeat(ctx, c.TxnHeartBeat)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_CheckSecondaryLocks:
		var r tikvpb.BatchCommandsResponse_Response_CheckSecondaryLocks
		r.CheckSecondaryLocks, err = k.KvCheckSecondaryLocks(ctx, c.CheckSecondaryLocks)
		resp.Cmd = &r
	default:
		return dispatchPipelined(ctx, k, req)
	}
	return resp, err
}

func dispatchFlashback(
	ctx context.Context, k tikvpb.TikvServer, req *tikvpb.BatchCommandsRequest_Request,
) (resp *tikvpb.BatchCommandsResponse_Response, err error) {
	resp = &tikvpb.BatchCommandsResponse_Response{}
	switch c := req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_FlashbackToVersion:
		var r tikvpb.BatchCommandsResponse_Response_FlashbackToVersion
		r.FlashbackToVersion, err = k.KvFlashbackToVersion(ctx, c.FlashbackToVersion)
		resp.Cmd = &r
	case *tikvpb.BatchCommandsRequest_Request_PrepareFlashbackToVersion:
		var r tikvpb.BatchCommandsResponse_Response_PrepareFlashbackToVersion
		r.PrepareFlashbackToVersion, err = k.KvPrepareFlashbackToVersion(ctx, c.PrepareFlashbackToVersion)
		resp.Cmd = &r
	default:
		return nil, status.Errorf(codes.Unimplemented, "command %T", c)
	}
	return resp, err
}
