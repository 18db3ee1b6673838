package tikvtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	backup "github.com/pingcap/kvproto/pkg/brpb"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	errLeaseExpired = status.Error(codes.FailedPrecondition,
		"the lease has expired, you may not send `wait_apply` because it is no meaning")
	errHalfClosed     = status.Error(codes.Canceled, "CANCELLED")
	errStreamReplaced = status.Error(codes.Canceled, "the loop has been aborted by server")
)

// prepareService serves the part of brpb.Backup that a volume snapshot uses.
type prepareService struct {
	backup.UnimplementedBackupServer
	s *Store
}

// CheckPendingAdminOp implements backup.BackupServer: a message for each region led here. As in TiKV a merge is
// pending once PrepareMerge is applied, and a change of members until it is applied.
func (b *prepareService) CheckPendingAdminOp(_ *backup.CheckAdminRequest, stream backup.Backup_CheckPendingAdminOpServer) error {
	k := b.s.strikeAt(stream.Context(), "CheckPendingAdminOp")
	if err := k.before(); err != nil {
		return err
	}
	for _, p := range b.s.allPeers() {
		v := p.look()
		if !v.leader {
			continue
		}
		if err := stream.Send(&backup.CheckAdminResponse{Region: v.region, HasPendingAdmin: v.merge != nil || p.proposed((*command).changesPeers)}); err != nil {
			return err
		}
	}
	return k.answer()
}

// prepareStream is one client's stream. Answers come from several goroutines.
type prepareStream struct {
	s       *Store
	stream  backup.Backup_PrepareSnapshotBackupServer
	send    sync.Mutex
	waiting sync.WaitGroup
}

// PrepareSnapshotBackup implements backup.BackupServer. Opening a stream changes nothing but that the stream
// before it ends.
func (b *prepareService) PrepareSnapshotBackup(stream backup.Backup_PrepareSnapshotBackupServer) error {
	if err := b.s.strikeAt(stream.Context(), "PrepareSnapshotBackup").before(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	number := b.s.lease.open(cancel)
	p := &prepareStream{s: b.s, stream: stream}
	requests := make(chan *backup.PrepareSnapshotBackupRequest)
	ended := make(chan error, 1)
	go func() { // it ends with the stream, which ends when this handler returns
		for {
			req, err := stream.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case requests <- req:
			case <-ctx.Done():
				return
			}
		}
	}()
	err := p.serve(ctx, requests, ended)
	cancel()
	p.waiting.Wait()
	if err != nil && !b.s.lease.newest(number) && errors.Is(err, context.Canceled) {
		return errStreamReplaced
	}
	return err
}

func (p *prepareStream) serve(ctx context.Context, requests <-chan *backup.PrepareSnapshotBackupRequest, ended <-chan error) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return errHalfClosed // gone without Finish: the lease runs on
			}
			return err
		case req := <-requests:
			finished, err := p.handle(ctx, req)
			if finished || err != nil {
				return err
			}
		}
	}
}

func (p *prepareStream) handle(ctx context.Context, req *backup.PrepareSnapshotBackupRequest) (finished bool, err error) {
	k := p.s.strikeAt(ctx, "PrepareSnapshotBackup."+req.Ty.String())
	if err := k.before(); err != nil {
		return true, err
	}
	now := time.Now()
	answer := &backup.PrepareSnapshotBackupResponse{Ty: backup.PrepareSnapshotBackupEventType_UpdateLeaseResult}
	switch req.Ty {
	case backup.PrepareSnapshotBackupRequestType_UpdateLease:
		p.s.calls.add("UpdateLease")
		answer.LastLeaseIsValid = p.s.lease.extend(now, time.Duration(req.LeaseInSeconds)*time.Second)
	case backup.PrepareSnapshotBackupRequestType_Finish:
		p.s.calls.add("Finish")
		answer.LastLeaseIsValid = p.s.lease.finish(now)
		finished = true
	case backup.PrepareSnapshotBackupRequestType_WaitApply:
		if p.s.lease.left(now) == 0 {
			return true, errLeaseExpired
		}
		for _, region := range req.Regions {
			p.waiting.Add(1)
			go func() {
				defer p.waiting.Done()
				p.waitApply(ctx, region)
			}()
		}
		return false, k.answer()
	}
	if k.lose {
		return true, errConnectionLost
	}
	return finished, p.answer(answer)
}

func (p *prepareStream) answer(r *backup.PrepareSnapshotBackupResponse) error {
	p.send.Lock()
	defer p.send.Unlock()
	return p.stream.Send(r)
}

// waitApply answers for one region when its peer here has applied what the log held at receipt.
func (p *prepareStream) waitApply(ctx context.Context, asked *metapb.Region) {
	k := p.s.strikeAt(ctx, "PrepareSnapshotBackup.WaitApply.Region")
	e := k.region
	if e == nil {
		e = p.s.waitRegionApplied(ctx, asked)
	}
	if ctx.Err() == nil {
		_ = p.answer(&backup.PrepareSnapshotBackupResponse{
			Ty: backup.PrepareSnapshotBackupEventType_WaitApplyDone, Region: asked, Error: e,
		})
	}
}

// waitRegionApplied checks in TiKV's order: peer, duplicate, epoch; leadership does not matter.
func (s *Store) waitRegionApplied(ctx context.Context, asked *metapb.Region) *errorpb.Error {
	peer := s.peer(asked.GetId())
	if peer == nil {
		return regionNotFound(asked.GetId())
	}
	peer.mu.Lock()
	if peer.waitsApply {
		peer.mu.Unlock()
		return &errorpb.Error{Message: fmt.Sprintf("another wait apply is running for region %d", asked.GetId())}
	}
	peer.waitsApply = true
	peer.mu.Unlock()
	defer func() {
		peer.mu.Lock()
		defer peer.mu.Unlock()
		peer.waitsApply = false
	}()
	s.awaitProposed(ctx)
	v := peer.look()
	epoch := asked.GetRegionEpoch()
	if epoch.GetVersion() != v.region.RegionEpoch.Version || epoch.GetConfVer() != v.region.RegionEpoch.ConfVer {
		cause := s.epochNotMatch(v.region, epoch)
		return aborted(cause, "EpochNotMatch("+regionsText(cause.EpochNotMatch.CurrentRegions)+")")
	}
	target := v.lastIndex
	if v.applied == target || (!v.leader && v.vote == 0) {
		return nil
	}
	now, err := peer.await(ctx, func(now peerView) bool { return now.applied >= target || now.term != v.term || now.destroyed })
	if err == nil && now.applied < target && !now.destroyed {
		return aborted(staleCommand(), fmt.Sprintf("StaleCommand { expected_term: %d, current_term: %d, region_id: %d }", v.term, now.term, asked.GetId()))
	}
	return nil
}

// awaitProposed waits until the views have what was proposed before. As in TiKV, who asks about a log gets it from who
// appends to it, and not from a copy that may be older: a command that was proposed just before a lease is in it. A
// static store has no log.
func (s *Store) awaitProposed(ctx context.Context) {
	if s.opts.Static {
		return
	}
	done := make(chan struct{})
	// The first may be handled together with a proposal, the second only once that is published.
	s.raft.post(raftTask{fn: func(*peer) {
		s.raft.post(raftTask{fn: func(*peer) { close(done) }})
	}})
	select {
	case <-done:
	case <-s.done:
	case <-ctx.Done():
	}
}

// aborted puts TiKV's words around why a wait ended: it prints its reason as Rust's Debug does, and of an epoch that is
// the protobuf message, without the sentence that other requests get.
func aborted(cause *errorpb.Error, note string) *errorpb.Error {
	cause.Message = "wait apply has been aborted, perhaps epoch not match or leadership changed, note = Some(" + note + ")"
	return cause
}

// regionsText is EpochNotMatch's list of regions as rust-protobuf prints it.
func regionsText(regions []*metapb.Region) string {
	var texts []string
	for _, r := range regions {
		text := fmt.Sprintf("current_regions {id: %d", r.Id)
		if len(r.StartKey) > 0 {
			text += fmt.Sprintf(" start_key: %q", r.StartKey)
		}
		if len(r.EndKey) > 0 {
			text += fmt.Sprintf(" end_key: %q", r.EndKey)
		}
		text += fmt.Sprintf(" region_epoch {conf_ver: %d version: %d}", r.RegionEpoch.GetConfVer(), r.RegionEpoch.GetVersion())
		for _, p := range r.Peers {
			text += fmt.Sprintf(" peers {id: %d store_id: %d}", p.Id, p.StoreId)
		}
		texts = append(texts, text+"}")
	}
	return strings.Join(texts, " ")
}
