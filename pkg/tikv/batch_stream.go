package tikv

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/pingcap/kvproto/pkg/tikvpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxBatch is the maximum number of requests in a message, as in TiKV's own client.
const maxBatch = 128

type (
	batchRequest  = tikvpb.BatchCommandsRequest_Request
	batchResponse = tikvpb.BatchCommandsResponse_Response
)

// batchStream is one BatchCommands stream to one store: queued requests are sent together, and answers arrive in any
// order. Calls that are waiting when the stream ends get its error. It is safe for concurrent use.
type batchStream struct {
	cancel context.CancelFunc
	queued chan struct{} // holds one when the queue is not empty
	ended  chan struct{} // closed when the stream has ended; err is set before

	mu      sync.Mutex
	queue   []batchItem
	waiting map[uint64]chan *batchResponse
	last    uint64
	err     error
}

type batchItem struct {
	id      uint64
	request *batchRequest
}

func newBatchStream(cancel context.CancelFunc) *batchStream {
	return &batchStream{
		cancel: cancel, queued: make(chan struct{}, 1), ended: make(chan struct{}),
		waiting: map[uint64]chan *batchResponse{},
	}
}

// call sends a request and waits for its answer. If ctx ends first, the store may still execute it, as any call.
func (b *batchStream) call(ctx context.Context, request *batchRequest) (*batchResponse, error) {
	answer := make(chan *batchResponse, 1)
	b.mu.Lock()
	b.last++
	id := b.last
	b.waiting[id] = answer
	b.queue = append(b.queue, batchItem{id, request})
	b.mu.Unlock()
	select {
	case b.queued <- struct{}{}:
	default: // the sender is already woken
	}
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waiting, id)
	}()
	select {
	case response := <-answer:
		return response, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-b.ended:
	}
	select {
	case response := <-answer: // arrived right before the end
		return response, nil
	default:
		return nil, b.err
	}
}

// run serves the stream until it breaks or ctx ends.
func (b *batchStream) run(ctx context.Context, client tikvpb.TikvClient) {
	defer close(b.ended)
	defer b.cancel()
	stream, err := client.BatchCommands(ctx)
	if err != nil {
		b.err = err
		return
	}
	var receiver sync.WaitGroup
	receiver.Go(func() {
		b.err = b.receive(stream)
		b.cancel()
	})
	b.send(ctx, stream)
	receiver.Wait()
}

// send sends queued requests until the stream breaks; the receiver gets the reason.
func (b *batchStream) send(ctx context.Context, stream tikvpb.Tikv_BatchCommandsClient) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.queued:
		}
		for batch := b.take(); len(batch.Requests) > 0; batch = b.take() {
			if err := stream.Send(batch); err != nil {
				return
			}
		}
	}
}

// take makes the next message from the queue, skipping abandoned requests.
func (b *batchStream) take() *tikvpb.BatchCommandsRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	batch := &tikvpb.BatchCommandsRequest{}
	for len(b.queue) > 0 && len(batch.Requests) < maxBatch {
		next := b.queue[0]
		b.queue[0] = batchItem{}
		b.queue = b.queue[1:]
		if b.waiting[next.id] != nil {
			batch.Requests = append(batch.Requests, next.request)
			batch.RequestIds = append(batch.RequestIds, next.id)
		}
	}
	return batch
}

func (b *batchStream) receive(stream tikvpb.Tikv_BatchCommandsClient) error {
	for {
		batch, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return status.Error(codes.Unavailable, "the store ended the stream")
		}
		if err != nil {
			return err
		}
		if len(batch.RequestIds) != len(batch.Responses) {
			return status.Errorf(codes.Internal, "a batch has %d answers to %d requests", len(batch.Responses),
				len(batch.RequestIds))
		}
		b.mu.Lock()
		for i, id := range batch.RequestIds {
			if answer := b.waiting[id]; answer != nil {
				answer <- batch.Responses[i] // never blocks: buffered, and there is only one
				delete(b.waiting, id)
			}
		}
		b.mu.Unlock()
	}
}
