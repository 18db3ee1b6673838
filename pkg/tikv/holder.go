package tikv

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	backup "github.com/pingcap/kvproto/pkg/brpb"
	"github.com/pingcap/kvproto/pkg/import_sstpb"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// refusalTime is how long OpenLease waits for the store to refuse the stream, after the store has answered another
// call on the same connection. A store that accepts the stream sends nothing.
const refusalTime = 20 * time.Millisecond

// OpenLease connects, opens the stream and makes one harmless call (CheckPendingAdminOp), so that an unreachable or
// outdated store is found before any store is paused. It ends another client's stream to the store. The lease
// outlives ctx; Close or Finish ends its stream.
func (c *Client) OpenLease(ctx context.Context, address string) (Lease, error) {
	const op = "open prepare-snapshot stream"
	// A stream cancelled while opening may still reach the store, and end a later one there.
	if err := interrupted(ctx, op, target(address)); err != nil {
		return nil, err
	}
	conn, err := c.connection(address)
	if err != nil {
		return nil, err
	}
	client := backup.NewBackupClient(conn)
	l, err := openLease(ctx, client, address)
	if err != nil {
		return nil, translate(ctx, err, op, address, hintPrepare)
	}
	if err := probe(ctx, client); err != nil {
		l.Close()
		return nil, translate(ctx, err, op, address, hintPrepare)
	}
	timer := time.NewTimer(refusalTime)
	defer timer.Stop()
	select {
	case <-l.ended:
		defer l.Close()
		return nil, l.failed(ctx, op)
	case <-ctx.Done():
		l.Close()
		return nil, interrupted(ctx, op, target(address))
	case <-timer.C:
		return l, nil
	}
}

// probe asks for the first region's pending admin commands: any answer shows that the store is up.
func probe(ctx context.Context, client backup.BackupClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.CheckPendingAdminOp(ctx, &backup.CheckAdminRequest{})
	if err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// LedRegions lists the regions led by the store, and those with a pending admin command, in the store's order.
func (c *Client) LedRegions(
	ctx context.Context, address string,
) (led []cluster.Region, pending []cluster.RegionID, err error) {
	const op = "check pending admin commands"
	conn, err := c.connection(address)
	if err != nil {
		return nil, nil, err
	}
	streamCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := backup.NewBackupClient(conn).CheckPendingAdminOp(streamCtx, &backup.CheckAdminRequest{})
	if err != nil {
		return nil, nil, translate(ctx, err, op, address, hintPrepare)
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return led, pending, nil
		}
		if err != nil {
			return nil, nil, translate(ctx, err, op, address, hintPrepare)
		}
		if resp.Error != nil {
			return nil, nil, failure.New(failure.Unknown, op, target(address), "%s", resp.Error.Msg)
		}
		led = append(led, regionOf(resp.Region))
		if resp.HasPendingAdmin {
			pending = append(pending, cluster.RegionID(resp.Region.GetId()))
		}
	}
}

// SuspendImport suspends imports for ttl, rounded up to whole seconds. It may be repeated: the last ttl counts.
func (c *Client) SuspendImport(ctx context.Context, address, caller string, ttl time.Duration) (bool, error) {
	return c.setImport(ctx, "suspend imports", address, &import_sstpb.SuspendImportRPCRequest{
		ShouldSuspendImports: true, DurationInSecs: seconds(ttl), Caller: caller,
	})
}

// ResumeImport allows imports again. It may be repeated.
func (c *Client) ResumeImport(ctx context.Context, address, caller string) (bool, error) {
	return c.setImport(ctx, "resume imports", address, &import_sstpb.SuspendImportRPCRequest{Caller: caller})
}

func (c *Client) setImport(
	ctx context.Context, op, address string, req *import_sstpb.SuspendImportRPCRequest,
) (bool, error) {
	conn, err := c.connection(address)
	if err != nil {
		return false, err
	}
	resp, err := import_sstpb.NewImportSSTClient(conn).SuspendImportRPC(ctx, req)
	if err != nil {
		return false, translate(ctx, err, op, address, hintPrepare)
	}
	return resp.AlreadySuspended, nil
}

// seconds rounds up: TiKV counts whole seconds, and a lease must never be shorter than requested.
func seconds(d time.Duration) uint64 {
	return uint64(max(math.Ceil(d.Seconds()), 0))
}
