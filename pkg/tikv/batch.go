package tikv

import (
	"context"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/tracing"
)

// batchStream returns the store's stream, opening a new one if it has ended.
func (c *Client) batchStream(address string) (*batchStream, error) {
	conn, err := c.connection(address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.streams[address]
	if b != nil {
		select {
		case <-b.ended:
		default:
			return b, nil
		}
	}
	ctx, cancel := context.WithCancel(context.Background()) // shared by many calls, ends with the connection
	b = newBatchStream(cancel)
	if c.closed {
		cancel() // run ends at once
	} else {
		c.streams[address] = b
	}
	c.streaming.Go(func() { b.run(ctx, tikvpb.NewTikvClient(conn)) })
	return b, nil
}

// inBatch sends a request in the store's next batch, or alone if the store does not support it in batches. Either way
// the call gets a span of its own.
func inBatch[T any](
	ctx context.Context, c *Client, op, address, method string, request *batchRequest,
	pick func(*batchResponse) *T, alone func(tikvpb.TikvClient) (*T, error),
) (*T, error) {
	b, err := c.batchStream(address) //nolint:contextcheck // the stream is shared and outlives this call
	if err != nil {
		return nil, err
	}
	if err := fenced.Check(ctx); err != nil {
		return nil, translate(ctx, err, op, address, "")
	}
	_, span := tracing.Call(ctx, "tikvpb.Tikv/"+method, "rpc.system", "grpc")
	response, err := b.call(ctx, request)
	span.End(err)
	if err != nil && status.Code(err) != codes.Unimplemented {
		return nil, translate(ctx, err, op, address, "")
	}
	if got := pick(response); got != nil {
		return got, nil
	}
	conn, err := c.connection(address)
	if err != nil {
		return nil, err
	}
	got, err := alone(tikvpb.NewTikvClient(conn))
	return got, translate(ctx, err, op, address, "")
}

func (c *Client) prepareInBatch(
	ctx context.Context, op, address string, req *kvrpcpb.PrepareFlashbackToVersionRequest,
) (*kvrpcpb.PrepareFlashbackToVersionResponse, error) {
	return inBatch(ctx, c, op, address, "KvPrepareFlashbackToVersion",
		&batchRequest{
			Cmd: &tikvpb.BatchCommandsRequest_Request_PrepareFlashbackToVersion{PrepareFlashbackToVersion: req},
		},
		(*batchResponse).GetPrepareFlashbackToVersion,
		func(store tikvpb.TikvClient) (*kvrpcpb.PrepareFlashbackToVersionResponse, error) {
			return store.KvPrepareFlashbackToVersion(ctx, req)
		})
}

func (c *Client) flashBackInBatch(
	ctx context.Context, op, address string, req *kvrpcpb.FlashbackToVersionRequest,
) (*kvrpcpb.FlashbackToVersionResponse, error) {
	return inBatch(ctx, c, op, address, "KvFlashbackToVersion",
		&batchRequest{Cmd: &tikvpb.BatchCommandsRequest_Request_FlashbackToVersion{FlashbackToVersion: req}},
		(*batchResponse).GetFlashbackToVersion,
		func(store tikvpb.TikvClient) (*kvrpcpb.FlashbackToVersionResponse, error) {
			return store.KvFlashbackToVersion(ctx, req)
		})
}

func (c *Client) scanLockInBatch(
	ctx context.Context, op, address string, req *kvrpcpb.ScanLockRequest,
) (*kvrpcpb.ScanLockResponse, error) {
	return inBatch(ctx, c, op, address, "KvScanLock",
		&batchRequest{Cmd: &tikvpb.BatchCommandsRequest_Request_ScanLock{ScanLock: req}},
		(*batchResponse).GetScanLock,
		func(store tikvpb.TikvClient) (*kvrpcpb.ScanLockResponse, error) { return store.KvScanLock(ctx, req) })
}
