package tikvtest

import (
	"bytes"
	"context"
	"fmt"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/raft_cmdpb"
)

// mergeState is what a region that gives itself to its neighbour keeps from PrepareMerge until CommitMerge or
// RollbackMerge. It is pending from the moment when PrepareMerge is applied, not from its proposal.
type mergeState struct {
	target *metapb.Region // as it was when PrepareMerge was proposed
	commit uint64         // index of PrepareMerge in the source's log
}

// Merge asks the store, which has to lead the region, to merge it into a neighbour. It is refused under a lease and
// in a flashback; it is under way when this returns, and completed or rolled back by the stores themselves.
func (s *Store) Merge(ctx context.Context, source, target uint64) error {
	if k := s.strikeAt(ctx, "Merge"); k.refuse != nil || k.region != nil {
		return fmt.Errorf("merge region %d: refused", source)
	}
	p, q := s.peer(source), s.peer(target)
	if p == nil || q == nil || !p.look().ready() {
		return fmt.Errorf("store %d does not lead region %d, or has no peer of region %d", s.id, source, target)
	}
	from, to := p.look(), q.look()
	adjacent := bytes.Equal(from.region.EndKey, to.region.StartKey) && len(from.region.EndKey) > 0 ||
		bytes.Equal(to.region.EndKey, from.region.StartKey) && len(to.region.EndKey) > 0
	switch {
	case !adjacent || !sameStores(from.region, to.region):
		return fmt.Errorf("region %d and region %d are no neighbours with peers on the same stores", source, target)
	case from.merge != nil || to.merge != nil || from.region.IsInFlashback || to.region.IsInFlashback:
		return fmt.Errorf("region %d or region %d is busy", source, target)
	}
	if e := s.suspendedAdmin(); e != nil {
		return fmt.Errorf("merge region %d: %s", source, e.Message)
	}
	s.proposeAdmin(p, from, &raft_cmdpb.AdminRequest{
		CmdType:      raft_cmdpb.AdminCmdType_PrepareMerge,
		PrepareMerge: &raft_cmdpb.PrepareMergeRequest{MinIndex: from.applied + 1, Target: to.region},
	})
	return nil
}

func sameStores(a, b *metapb.Region) bool {
	for _, member := range a.Peers {
		if other := peerOn(b, member.StoreId); other == nil || other.Role != member.Role {
			return false
		}
	}
	return len(a.Peers) == len(b.Peers)
}

// proposeAdmin proposes a command and does not wait.
func (s *Store) proposeAdmin(p *peer, v peerView, admin *raft_cmdpb.AdminRequest) {
	c := &command{
		id: s.bootID + s.proposals.Add(1), version: v.region.RegionEpoch.Version, confVer: v.region.RegionEpoch.ConfVer,
		admin: admin,
	}
	s.raft.post(raftTask{region: p.regionID, proposal: &proposal{
		command: c, term: v.term, done: func(*errorpb.Error) {},
	}})
}

// checkMerges completes the merges whose source is led here: CommitMerge is proposed to the target, or RollbackMerge
// to the source if the target has changed since. Both pass under a lease, as TiKV lets what began come to an end.
func (w *raftWorker) checkMerges(ctx context.Context) {
	for _, p := range w.order {
		v := p.look()
		if v.merge == nil || !v.ready() || w.slowest(p) < v.merge.commit {
			continue
		}
		if k := w.store.strikeAt(ctx, "CheckMerge"); k.refuse != nil || k.region != nil {
			continue
		}
		store, target, gone := w.store.leaderOf(v.merge.target)
		if target == nil && !gone {
			continue
		}
		var now peerView
		if target != nil {
			now = target.look()
		}
		switch want := v.merge.target.RegionEpoch.Version; {
		case gone || now.region.RegionEpoch.Version > want || !sameStores(now.region, v.region):
			w.store.proposeAdmin(p, v, &raft_cmdpb.AdminRequest{
				CmdType:       raft_cmdpb.AdminCmdType_RollbackMerge,
				RollbackMerge: &raft_cmdpb.RollbackMergeRequest{Commit: v.merge.commit},
			})
		case now.region.RegionEpoch.Version == want:
			// A target that is prepared for a flashback refuses it when it is applied: it is proposed again and again.
			store.proposeAdmin(target, now, &raft_cmdpb.AdminRequest{
				CmdType:     raft_cmdpb.AdminCmdType_CommitMerge,
				CommitMerge: &raft_cmdpb.CommitMergeRequest{Source: v.region, Commit: v.merge.commit},
			})
		}
	}
}

// leaderOf finds the store whose peer of the region leads and serves, among those that can be reached. Its peers may have
// moved since it was r. It is gone if none of r's stores has a peer of it any more.
func (s *Store) leaderOf(r *metapb.Region) (leader *Store, p *peer, gone bool) {
	newest, gone := r, true
	for _, member := range r.Peers {
		store, _ := s.net.reach(s, member.StoreId)
		if store == nil {
			gone = false
		} else if p := store.peer(r.Id); p != nil {
			gone = false
			if now := p.look().region; now.RegionEpoch.ConfVer > newest.RegionEpoch.ConfVer {
				newest = now
			}
		}
	}
	for _, member := range newest.Peers {
		if store, _ := s.net.reach(s, member.StoreId); store != nil {
			if p := store.peer(r.Id); p != nil && p.look().ready() {
				return store, p, false
			}
		}
	}
	return nil, nil, gone
}

func proposalInMergingMode(region uint64) *errorpb.Error {
	return &errorpb.Error{
		Message:               fmt.Sprintf("region %d is in merging mode", region),
		ProposalInMergingMode: &errorpb.ProposalInMergingMode{RegionId: region},
	}
}
