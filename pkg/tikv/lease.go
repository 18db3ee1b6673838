package tikv

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	backup "github.com/pingcap/kvproto/pkg/brpb"
	"github.com/pingcap/kvproto/pkg/errorpb"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// waitApplyBatch is the number of regions in a WaitApply message, to keep it small.
const waitApplyBatch = 1000

// lease is a prepare-snapshot stream. Beyond the contract it is safe for concurrent use: a renewal does not wait
// for a WaitApply in progress. If ctx ends while a call waits, the stream stays usable and the late answer is dropped.
type lease struct {
	address string
	stream  backup.Backup_PrepareSnapshotBackupClient
	cancel  context.CancelFunc

	sending sync.Mutex // one Send at a time; also held while a waiter is queued, to keep the order

	mu       sync.Mutex
	closed   bool
	renewals []chan bool                           // waiting for UpdateLeaseResult: TiKV answers in order
	applies  map[cluster.RegionID][]chan<- applied // waiting for WaitApplyDone, by region, in order
	err      error                                 // why the stream ended

	ended     chan struct{} // closed once nothing more will be received
	receiving sync.WaitGroup
}

// applied is one region's WaitApplyDone.
type applied struct {
	region cluster.RegionID
	err    *errorpb.Error
}

var _ Lease = (*lease)(nil)

// openLease opens the stream. ctx bounds only the opening.
func openLease(ctx context.Context, client backup.BackupClient, address string) (*lease, error) {
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	defer stop()
	stream, err := client.PrepareSnapshotBackup(streamCtx)
	if err != nil {
		cancel()
		return nil, err
	}
	l := &lease{
		address: address, stream: stream, cancel: cancel,
		applies: map[cluster.RegionID][]chan<- applied{}, ended: make(chan struct{}),
	}
	l.receiving.Go(l.receive)
	return l, nil
}

// receive delivers each message to the call that waits for it, until the stream ends.
func (l *lease) receive() {
	defer close(l.ended)
	for {
		resp, err := l.stream.Recv()
		if err != nil {
			l.mu.Lock()
			l.err = err
			l.mu.Unlock()
			return
		}
		if resp.Ty == backup.PrepareSnapshotBackupEventType_UpdateLeaseResult {
			l.deliverRenewal(resp.LastLeaseIsValid)
		} else {
			l.deliverApplied(applied{cluster.RegionID(resp.Region.GetId()), resp.Error})
		}
	}
}

func (l *lease) deliverRenewal(valid bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.renewals) > 0 {
		l.renewals[0] <- valid
		l.renewals = l.renewals[1:]
	}
}

// deliverApplied delivers the message to the first call that waits for the region, but "already waiting" to the last:
// the first keeps waiting.
func (l *lease) deliverApplied(a applied) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.applies[a.region]
	if len(queue) == 0 {
		return
	}
	i := 0
	if alreadyWaiting(a.err) {
		i = len(queue) - 1
	}
	queue[i] <- a
	queue = append(queue[:i:i], queue[i+1:]...)
	if len(queue) == 0 {
		delete(l.applies, a.region)
		return
	}
	l.applies[a.region] = queue
}

// send queues the waiter and sends the request in one step, so that waiters are in the order of the requests.
// If ctx ends while the store reads nothing, the stream is cancelled: half a message cannot be undone.
func (l *lease) send(ctx context.Context, op string, req *backup.PrepareSnapshotBackupRequest, enqueue func()) error {
	l.sending.Lock()
	defer l.sending.Unlock()
	if err := interrupted(ctx, op, target(l.address)); err != nil {
		return err
	}
	l.mu.Lock()
	enqueue()
	l.mu.Unlock()
	stop := context.AfterFunc(ctx, l.cancel)
	defer stop()
	if err := l.stream.Send(req); err != nil {
		l.cancel()
		<-l.ended // the receiver has the stream's status
		return l.failed(ctx, op)
	}
	return nil
}

// failed returns why the stream, which has ended, is unusable.
func (l *lease) failed(ctx context.Context, op string) error {
	l.mu.Lock()
	err, closed := l.err, l.closed
	l.mu.Unlock()
	switch {
	case closed:
		return failure.New(failure.Usage, op, target(l.address), "the lease is closed")
	case errors.Is(err, io.EOF):
		return failure.New(failure.Conflict, op, target(l.address), "the store ended the stream").
			WithHint("%s", hintOtherBackup)
	}
	return translate(ctx, err, op, l.address, hintPrepare)
}

// Renew sends UpdateLease and waits for its result.
func (l *lease) Renew(ctx context.Context, ttl time.Duration) (bool, error) {
	return l.update(ctx, "renew lease", &backup.PrepareSnapshotBackupRequest{
		Ty: backup.PrepareSnapshotBackupRequestType_UpdateLease, LeaseInSeconds: seconds(ttl),
	})
}

// update sends a request that is answered by one UpdateLeaseResult.
func (l *lease) update(ctx context.Context, op string, req *backup.PrepareSnapshotBackupRequest) (bool, error) {
	result := make(chan bool, 1)
	if err := l.send(ctx, op, req, func() { l.renewals = append(l.renewals, result) }); err != nil {
		return false, err
	}
	select {
	case valid := <-result:
		return valid, nil
	case <-ctx.Done():
		return false, interrupted(ctx, op, target(l.address))
	case <-l.ended:
	}
	select { // the answer may have arrived just before the end
	case valid := <-result:
		return valid, nil
	default:
		return false, l.failed(ctx, op)
	}
}

// WaitApply sends the regions in batches and collects an answer for each, in any order. The errors of single
// regions are *RegionError. Without a valid lease the stream ends and the error is Unready.
func (l *lease) WaitApply(ctx context.Context, regions []cluster.Region) (map[cluster.RegionID]error, error) {
	const op = "wait apply"
	// Room for all answers: the receiver never blocks, even if we return early.
	results := make(chan applied, len(regions))
	for start := 0; start < len(regions); start += waitApplyBatch {
		batch := regions[start:min(start+waitApplyBatch, len(regions))]
		req := &backup.PrepareSnapshotBackupRequest{Ty: backup.PrepareSnapshotBackupRequestType_WaitApply}
		for _, r := range batch {
			req.Regions = append(req.Regions, regionPB(r))
		}
		err := l.send(ctx, op, req, func() {
			for _, r := range batch {
				l.applies[r.ID] = append(l.applies[r.ID], results)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return l.collect(ctx, op, results, len(regions))
}

func (l *lease) collect(
	ctx context.Context, op string, results <-chan applied, want int,
) (map[cluster.RegionID]error, error) {
	failed := map[cluster.RegionID]error{}
	for got := 0; got < want; got++ {
		var a applied
		select {
		case a = <-results:
		case <-ctx.Done():
			return nil, interrupted(ctx, op, target(l.address))
		case <-l.ended:
			if len(results) == 0 {
				return nil, l.failed(ctx, op)
			}
			a = <-results // arrived before the end
		}
		if a.err != nil {
			failed[a.region] = regionError(a.region, a.err)
		}
	}
	return failed, nil
}

// Finish ends the lease now and closes the stream.
func (l *lease) Finish(ctx context.Context) (bool, error) {
	defer l.Close()
	return l.update(ctx, "finish lease", &backup.PrepareSnapshotBackupRequest{
		Ty: backup.PrepareSnapshotBackupRequestType_Finish,
	})
}

// Close ends the stream and waits for the receiver. It may be called again.
func (l *lease) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.receiving.Wait()
}
