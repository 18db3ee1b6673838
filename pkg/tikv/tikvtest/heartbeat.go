package tikvtest

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// reportQueue holds the regions that are reported to PD at once.
type reportQueue struct {
	mu      sync.Mutex
	regions map[uint64]struct{}
	wake    chan struct{}
}

func newReportQueue() *reportQueue {
	return &reportQueue{regions: map[uint64]struct{}{}, wake: make(chan struct{}, 1)}
}

func (q *reportQueue) add(region uint64) {
	q.mu.Lock()
	q.regions[region] = struct{}{}
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *reportQueue) take() map[uint64]struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.regions
	q.regions = map[uint64]struct{}{}
	return taken
}

// heartbeatLoop reports to PD the store and the regions led here, and carries out PD's operators.
func (s *Store) heartbeatLoop(ctx context.Context) {
	first := time.NewTimer(s.opts.FirstHeartbeat)
	defer first.Stop()
	stores := time.NewTicker(s.opts.StoreHeartbeatInterval)
	defer stores.Stop()
	regions := time.NewTicker(s.opts.RegionHeartbeatInterval)
	defer regions.Stop()
	began := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-first.C:
			began = true
			s.reportStore(ctx)
		case <-stores.C:
			if began {
				s.reportStore(ctx)
			}
		case <-regions.C:
			for _, p := range s.allPeers() {
				s.reportRegion(ctx, p)
			}
		case <-s.reports.wake:
			for id := range s.reports.take() {
				if p := s.peer(id); p != nil {
					s.reportRegion(ctx, p)
				}
			}
		}
	}
}

func (s *Store) reportStore(ctx context.Context) {
	if k := s.strikeAt(ctx, "StoreHeartbeat"); k.refuse != nil || k.region != nil {
		return
	}
	capacity := uint64(s.cfg.Data.Size())
	used := uint64(s.cfg.Data.Used() + s.cfg.RaftLog.Used())
	_, err := s.pd.StoreHeartbeat(ctx, &pdpb.StoreHeartbeatRequest{Header: s.header(), Stats: &pdpb.StoreStats{
		StoreId: s.id, Capacity: capacity, UsedSize: used, Available: capacity - min(used, capacity),
		RegionCount: uint32(len(s.allPeers())), StartTime: uint32(s.startedAt.Unix()),
	}})
	if err != nil && ctx.Err() == nil {
		s.logf("tikv %d: store heartbeat: %v", s.id, err)
	}
}

// reportRegion sends one region heartbeat, if the peer leads.
func (s *Store) reportRegion(ctx context.Context, p *peer) {
	v := p.look()
	if !v.leader {
		return
	}
	if k := s.strikeAt(ctx, "RegionHeartbeat"); k.refuse != nil || k.region != nil {
		return
	}
	keys := s.approximateKeys(v)
	resp, err := s.pd.ReportRegion(ctx, &pdpb.RegionHeartbeatRequest{
		Header: s.header(), Region: v.region, Leader: peerByID(v.region, p.id), Term: v.term,
		PendingPeers: s.pendingPeers(v.region), ApproximateKeys: keys, ApproximateSize: 1 + keys*200, // 200 bytes a key and version is near enough
	})
	if err != nil || resp == nil {
		return
	}
	if to := resp.GetTransferLeader(); to != nil {
		s.transferLeader(p.regionID, to.GetPeer().GetId())
	}
	if change := resp.GetChangePeer(); change != nil {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err := s.ChangePeers(ctx, p.regionID, &PeerChange{ChangeType: change.ChangeType, Peer: change.Peer})
		s.logf("tikv %d: change peers of region %d: %v", s.id, p.regionID, err)
	}
	if cut := resp.GetSplitRegion(); cut != nil && len(cut.Keys) > 0 {
		c := &kvrpcpb.Context{RegionId: p.regionID, RegionEpoch: v.region.RegionEpoch}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, _, _ = s.split(ctx, c, cut.Keys)
	}
}

// pendingPeers are the learners that have no data yet.
func (s *Store) pendingPeers(r *metapb.Region) []*metapb.Peer {
	var pending []*metapb.Peer
	for _, member := range r.GetPeers() {
		if member.Role != metapb.PeerRole_Learner {
			continue
		}
		if other, _ := s.net.reach(s, member.StoreId); other == nil || other.peer(r.Id) == nil {
			pending = append(pending, member)
		}
	}
	return pending
}

// approximateKeys is a share of the store's keys: PD only shows it.
func (s *Store) approximateKeys(v peerView) uint64 {
	s.data.mu.RLock()
	defer s.data.mu.RUnlock()
	if v.region == nil || len(s.data.regions) == 0 {
		return 0
	}
	return uint64(math.Ceil(float64(s.data.cfs[2].Len()) / float64(len(s.data.regions))))
}
