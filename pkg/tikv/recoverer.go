package tikv

import (
	"context"
	"errors"
	"io"

	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
)

const readRegionMeta = "/recover_data.RecoverData/ReadRegionMeta"

// RegionMetas streams the store's peers to each, one at a time; the keys are valid until each returns. An error of each
// ends the stream and is returned as it is. The peers seen before an error count for nothing: ask again from the start.
func (c *Client) RegionMetas(ctx context.Context, address string, each func(RegionMeta) error) error {
	const op = "read region metas"
	conn, err := c.connection(address)
	if err != nil {
		return err
	}
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(streamCtx, &grpc.StreamDesc{ServerStreams: true}, readRegionMeta,
		grpc.ForceCodecV2(rawCodec{}))
	if err != nil {
		return translate(ctx, err, op, address, hintRecovery)
	}
	if err := stream.SendMsg(&recoverdata.ReadRegionMetaRequest{}); err != nil && !errors.Is(err, io.EOF) {
		return translate(ctx, err, op, address, hintRecovery) // after io.EOF the status comes with the answer
	}
	if err := stream.CloseSend(); err != nil {
		return translate(ctx, err, op, address, hintRecovery)
	}
	var raw rawMessage
	var meta RegionMeta
	for {
		err := stream.RecvMsg(&raw)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if status.Code(err) == codes.Canceled && ctx.Err() == nil {
			return failure.Wrap(err, failure.Unknown, op, target(address)) // a store that shuts down cancels its calls
		}
		if err != nil {
			return translate(ctx, err, op, address, hintRecovery)
		}
		if err := decodeRegionMeta(raw.data, &meta); err != nil {
			return failure.Wrap(err, failure.Corrupt, op, target(address))
		}
		if err := each(meta); err != nil {
			return err
		}
	}
}

// Recover sends the whole plan and waits for the one answer. TiKV acts only when all is sent, so a plan that was
// cut off has no effect; an answer that was lost is found by sending the same plan again.
func (c *Client) Recover(ctx context.Context, address string, plan []Command) error {
	const op = "recover regions"
	conn, err := c.connection(address)
	if err != nil {
		return err
	}
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := recoverdata.NewRecoverDataClient(conn).RecoverRegion(streamCtx)
	if err != nil {
		return translate(ctx, err, op, address, hintRecovery)
	}
	for _, cmd := range plan {
		err := stream.Send(&recoverdata.RecoverRegionRequest{RegionId: uint64(cmd.Region), AsLeader: cmd.AsLeader})
		if errors.Is(err, io.EOF) {
			break // the store has ended the call; the status comes with the answer
		}
		if err != nil {
			return translate(ctx, err, op, address, hintRecovery)
		}
	}
	if err := fenced.Check(ctx); err != nil { // all is sent, and TiKV begins with the end of it
		return translate(ctx, err, op, address, hintRecovery)
	}
	resp, err := stream.CloseAndRecv()
	if status.Code(err) == codes.Canceled && ctx.Err() == nil {
		// A store that shuts down cancels its calls; another run would have aborted it.
		return failure.Wrap(err, failure.Unknown, op, target(address))
	}
	if err != nil {
		return translate(ctx, err, op, address, hintRecovery)
	}
	return answered(resp.Error, op, address)
}

// WaitApply returns when all peers of the store have applied their logs.
func (c *Client) WaitApply(ctx context.Context, address string, store cluster.StoreID) error {
	const op = "wait apply"
	conn, err := c.connection(address)
	if err != nil {
		return err
	}
	resp, err := recoverdata.NewRecoverDataClient(conn).WaitApply(ctx, &recoverdata.WaitApplyRequest{
		StoreId: uint64(store),
	})
	if err != nil {
		return translate(ctx, err, op, address, hintRecovery)
	}
	return answered(resp.Error, op, address)
}

// answered turns the response's own error, which TiKV 8.5 never sets, into a failure.
func answered(e *recoverdata.Error, op, address string) error {
	if e == nil {
		return nil
	}
	return failure.New(failure.Unknown, op, target(address), "%s", e.Msg)
}
