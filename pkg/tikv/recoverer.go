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

// RegionMetas streams the store's peers to each, one at a time; keys are valid until each returns. An error from each
// ends the stream and is returned as is. After any error, discard the peers seen so far and start over.
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
		return translate(ctx, err, op, address, hintRecovery) // after io.EOF, RecvMsg returns the status
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
			return failure.Wrap(err, failure.Unknown, op, target(address)) // a store cancels its calls at shutdown
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

// Recover sends the whole plan and waits for the one answer. TiKV acts only on a complete plan, so a truncated one
// has no effect; after a lost answer, send the same plan again.
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
			break // the store has ended the call; CloseAndRecv returns the status
		}
		if err != nil {
			return translate(ctx, err, op, address, hintRecovery)
		}
	}
	if err := fenced.Check(ctx); err != nil { // TiKV acts once the stream is closed
		return translate(ctx, err, op, address, hintRecovery)
	}
	resp, err := stream.CloseAndRecv()
	if status.Code(err) == codes.Canceled && ctx.Err() == nil {
		// A store cancels its calls at shutdown; another run would have aborted this one.
		return failure.Wrap(err, failure.Unknown, op, target(address))
	}
	if err != nil {
		return translate(ctx, err, op, address, hintRecovery)
	}
	return answered(resp.Error, op, address)
}

// WaitApply returns once all peers of the store have applied their logs.
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

// answered converts the response's own error, which TiKV 8.5 never sets.
func answered(e *recoverdata.Error, op, address string) error {
	if e == nil {
		return nil
	}
	return failure.New(failure.Unknown, op, target(address), "%s", e.Msg)
}
