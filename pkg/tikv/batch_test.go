package tikv_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// batching is a store that takes batches: it holds what came until there are so many, and answers the last one first.
type batching struct {
	hold    int
	breaks  atomic.Bool // the next batch ends the stream instead
	unknown bool        // it answers as TiKV does to a command that it does not know
	streams atomic.Int64
	batches atomic.Int64
}

func (b *batching) serve(stream tikvpb.Tikv_BatchCommandsServer) error {
	b.streams.Add(1)
	var held tikvpb.BatchCommandsResponse
	for {
		batch, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client is done
		}
		if b.breaks.Swap(false) {
			return status.Error(codes.Unavailable, "the store is being stopped")
		}
		b.batches.Add(1)
		for i, req := range batch.Requests {
			held.RequestIds = append(held.RequestIds, batch.RequestIds[i])
			held.Responses = append(held.Responses, b.answer(req))
		}
		if len(held.Responses) < b.hold {
			continue
		}
		slices.Reverse(held.RequestIds)
		slices.Reverse(held.Responses)
		if err := stream.Send(&held); err != nil {
			return err
		}
		held = tikvpb.BatchCommandsResponse{}
	}
}

// answer reports each region's id in a message, so that answers that are mixed up show.
func (b *batching) answer(req *tikvpb.BatchCommandsRequest_Request) *tikvpb.BatchCommandsResponse_Response {
	if b.unknown {
		return &tikvpb.BatchCommandsResponse_Response{}
	}
	about := func(c *kvrpcpb.Context) *errorpb.Error {
		return &errorpb.Error{Message: "about " + cluster.RegionID(c.RegionId).String()}
	}
	switch c := req.Cmd.(type) {
	case *tikvpb.BatchCommandsRequest_Request_PrepareFlashbackToVersion:
		return &tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_PrepareFlashbackToVersion{
			PrepareFlashbackToVersion: &kvrpcpb.PrepareFlashbackToVersionResponse{RegionError: about(c.PrepareFlashbackToVersion.Context)},
		}}
	case *tikvpb.BatchCommandsRequest_Request_FlashbackToVersion:
		return &tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_FlashbackToVersion{
			FlashbackToVersion: &kvrpcpb.FlashbackToVersionResponse{RegionError: about(c.FlashbackToVersion.Context)},
		}}
	default:
		return &tikvpb.BatchCommandsResponse_Response{Cmd: &tikvpb.BatchCommandsResponse_Response_ScanLock{
			ScanLock: &kvrpcpb.ScanLockResponse{RegionError: about(req.GetScanLock().GetContext())},
		}}
	}
}

// calls are the three that a restore makes for very many regions.
func calls(client *tikv.Client, address string) map[string]func(context.Context, cluster.RegionID) error {
	f := func(id cluster.RegionID) tikv.Flashback {
		return tikv.Flashback{Region: cluster.Region{ID: id}, Version: 1, StartTS: 2, CommitTS: 3}
	}
	return map[string]func(context.Context, cluster.RegionID) error{
		"prepare": func(ctx context.Context, id cluster.RegionID) error {
			return client.PrepareFlashback(ctx, address, f(id))
		},
		"flashback": func(ctx context.Context, id cluster.RegionID) error { return client.Flashback(ctx, address, f(id)) },
		"lock": func(ctx context.Context, id cluster.RegionID) error {
			_, err := client.AnyLock(ctx, address, cluster.Region{ID: id})
			return err
		},
	}
}

// All that is sent to a store goes through one stream, and each call gets its own answer, in whatever order they come.
func TestBatch_ManyCalls_ShareAStreamAndGetTheirOwnAnswers(t *testing.T) {
	t.Parallel()
	const each = 50
	b := &batching{hold: 3 * each}
	address, client := serve(t, &script{batch: b.serve})
	ctx := within(t, 30*time.Second)
	var running sync.WaitGroup
	for name, call := range calls(client, address) {
		for i := range each {
			id := cluster.RegionID(1000*len(name) + i)
			running.Go(func() {
				var refused *tikv.RegionError
				if err := call(ctx, id); !errors.As(err, &refused) || refused.Region != id || refused.Message != "about "+id.String() {
					t.Errorf("%s of region %s: %v", name, id, err)
				}
			})
		}
	}
	running.Wait()
	require.EqualValues(t, 1, b.streams.Load())
	require.LessOrEqual(t, b.batches.Load(), int64(3*each))
}

// Whoever waits when the stream ends learns that the store went away, and the next call has a stream of its own.
func TestBatch_StreamBreaks_NextCallOpensAnother(t *testing.T) {
	t.Parallel()
	b := &batching{hold: 1}
	address, client := serve(t, &script{batch: b.serve})
	ctx := within(t, 30*time.Second)
	scan := calls(client, address)["lock"]
	b.breaks.Store(true)
	err := scan(ctx, 7)
	require.True(t, failure.NotYet(err), "%v", err)
	require.ErrorContains(t, err, "the store is being stopped")
	var refused *tikv.RegionError
	require.Eventually(t, func() bool { return errors.As(scan(ctx, 7), &refused) }, 30*time.Second, time.Millisecond)
	require.EqualValues(t, 2, b.streams.Load())
}

func TestBatch_CallIsCancelled_ReturnsAndTheStreamStays(t *testing.T) {
	t.Parallel()
	b := &batching{hold: 2}
	address, client := serve(t, &script{batch: b.serve})
	ctx, cancel := context.WithCancel(within(t, 30*time.Second))
	scan := calls(client, address)["lock"]
	ended := make(chan error, 1)
	go func() { ended <- scan(ctx, 7) }()
	require.Eventually(t, func() bool { return b.batches.Load() == 1 }, 30*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	var refused *tikv.RegionError
	require.ErrorAs(t, scan(within(t, 30*time.Second), 8), &refused)
	require.EqualValues(t, 8, refused.Region)
	require.EqualValues(t, 1, b.streams.Load())
}

// A store that takes no batches, or none of these, is called for each region.
func TestBatch_StoreTakesNone_IsCalledAlone(t *testing.T) {
	t.Parallel()
	for name, batch := range map[string]func(tikvpb.Tikv_BatchCommandsServer) error{
		"no such stream":  nil,
		"no such command": (&batching{hold: 1, unknown: true}).serve,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			alone := &errorpb.Error{Message: "alone"}
			address, client := serve(t, &script{
				batch: batch,
				prepareBack: func(*kvrpcpb.PrepareFlashbackToVersionRequest) *kvrpcpb.PrepareFlashbackToVersionResponse {
					return &kvrpcpb.PrepareFlashbackToVersionResponse{RegionError: alone}
				},
				flashBack: func(*kvrpcpb.FlashbackToVersionRequest) *kvrpcpb.FlashbackToVersionResponse {
					return &kvrpcpb.FlashbackToVersionResponse{RegionError: alone}
				},
				scanLock: func(*kvrpcpb.ScanLockRequest) *kvrpcpb.ScanLockResponse {
					return &kvrpcpb.ScanLockResponse{RegionError: alone}
				},
			})
			for what, call := range calls(client, address) {
				var refused *tikv.RegionError
				require.ErrorAs(t, call(within(t, 30*time.Second), 7), &refused, what)
				require.Equal(t, "alone", refused.Message, what)
			}
		})
	}
}
