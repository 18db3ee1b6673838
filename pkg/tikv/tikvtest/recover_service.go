package tikvtest

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	recoverdata "github.com/pingcap/kvproto/pkg/recoverdatapb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errReplaced ends a RecoverRegion when a newer call comes. TiKV gives no text.
var errReplaced = status.Error(codes.Aborted, "")

// recovery holds the RecoverRegion that is running. The zero value is none.
type recovery struct {
	mu    sync.Mutex
	abort context.CancelCauseFunc
}

// replace ends the call that is running, if any, and makes next the one to end later.
func (r *recovery) replace(next context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.abort != nil {
		r.abort(errReplaced)
	}
	r.abort = next
}

// recoverService serves recover_data.RecoverData in recovery mode, with the quirks of TiKV 8.5.
type recoverService struct {
	recoverdata.UnimplementedRecoverDataServer
	s *Store
}

// ReadRegionMeta implements recover_data.RecoverDataServer: the regions as they are on the store's devices, also before
// their peers have started. The store id asked for does not matter. PeerId is the largest of the region, LastLogTerm the
// hard state's term, CommitIndex never set.
func (r *recoverService) ReadRegionMeta(_ *recoverdata.ReadRegionMetaRequest, stream recoverdata.RecoverData_ReadRegionMetaServer) error {
	k := r.s.strikeAt(stream.Context(), "ReadRegionMeta")
	if err := k.before(); err != nil {
		return err
	}
	r.s.recovery.replace(nil)
	peers := r.s.allPeers()
	for i, p := range peers {
		if k.lose && i == len(peers)/2 {
			break
		}
		raft, err := r.s.raftStateOf(stream.Context(), p)
		if err != nil {
			return err
		}
		v := p.look()
		meta := &recoverdata.RegionMeta{
			RegionId: p.regionID, LastLogTerm: raft.HardState.Term, LastIndex: raft.LastIndex,
			Version: v.region.RegionEpoch.Version, StartKey: v.region.StartKey, EndKey: v.region.EndKey,
		}
		for _, member := range v.region.Peers {
			meta.PeerId = max(meta.PeerId, member.Id)
		}
		if err := stream.Send(meta); err != nil {
			return err
		}
	}
	return k.answer()
}

// RecoverRegion implements recover_data.RecoverDataServer. It acts only after the client has half-closed, on
// the as_leader lines only, looks each RecoverCheckInterval, and never gives up.
func (r *recoverService) RecoverRegion(stream recoverdata.RecoverData_RecoverRegionServer) error {
	k := r.s.strikeAt(stream.Context(), "RecoverRegion")
	if err := k.before(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	var leaders []uint64
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if req.AsLeader {
			leaders = append(leaders, req.RegionId)
		}
	}
	r.s.recovery.replace(cancel)
	r.s.calls.add("RecoverRegion")
	err := r.s.lead(ctx, leaders)
	if err == nil {
		err = r.s.awaitApplied(ctx, leaders)
	}
	if errors.Is(context.Cause(ctx), errReplaced) {
		return errReplaced
	}
	if err != nil {
		return err
	}
	if k.lose {
		return errConnectionLost
	}
	return stream.SendAndClose(&recoverdata.RecoverRegionResponse{StoreId: r.s.id})
}

// lead makes the store lead the regions: look, let those that do not lead stand for election, wait out the
// interval, until one look found nothing to do.
func (s *Store) lead(ctx context.Context, regions []uint64) error {
	ticker := time.NewTicker(s.opts.RecoverCheckInterval)
	defer ticker.Stop()
	for {
		failed := 0
		for _, id := range regions {
			if s.leads(id) {
				continue
			}
			failed++
			s.campaign(id)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if failed == 0 {
			return nil
		}
	}
}

// leads is the check of RecoverRegion: like any request it is refused while the region is prepared for a
// flashback, so a leader in that state does not count.
func (s *Store) leads(region uint64) bool {
	p := s.peer(region)
	if p == nil {
		s.logf("tikv: recover: region %d not found", region)
		return false
	}
	v := p.look()
	if e := refuseInFlashback(v.region); e != nil {
		s.logf("tikv: recover: %s", e.Message)
		return false
	}
	if !v.leader {
		s.logf("tikv: recover: %s", notLeader(v).Message)
	}
	return v.leader
}

// awaitApplied waits until the peers of these regions have applied what their logs hold now.
func (s *Store) awaitApplied(ctx context.Context, regions []uint64) error {
	s.awaitProposed(ctx)
	for _, id := range regions {
		p := s.peer(id)
		if p == nil {
			continue
		}
		target := p.look().lastIndex
		if _, err := p.await(ctx, func(v peerView) bool { return v.applied >= target || v.destroyed }); err != nil {
			return err
		}
	}
	return nil
}

// WaitApply implements recover_data.RecoverDataServer. It has no time-out.
func (r *recoverService) WaitApply(ctx context.Context, _ *recoverdata.WaitApplyRequest) (*recoverdata.WaitApplyResponse, error) {
	k := r.s.strikeAt(ctx, "WaitApply")
	if err := k.before(); err != nil {
		return nil, err
	}
	var all []uint64
	for _, p := range r.s.allPeers() {
		all = append(all, p.regionID)
	}
	if err := r.s.awaitApplied(ctx, all); err != nil {
		return nil, err
	}
	return &recoverdata.WaitApplyResponse{}, k.answer()
}
