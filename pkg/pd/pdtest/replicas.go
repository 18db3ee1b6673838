package pdtest

import (
	"fmt"
	"slices"

	"github.com/pingcap/kvproto/pkg/eraftpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// PD makes up for a peer that it removed: its replica checker adds one as a learner on a store that has none, and makes it a
// voter once it has its snapshot (tikv/pd, pkg/schedule/checker: 5 regions took 6 s on PD 8.5.0). Here it does so only for
// regions of which an operator removed a peer, and not for every region with fewer than max-replicas.

// removePeerLocked begins remove-peer, or returns PD's refusal.
func (s *Server) removePeerLocked(r *region, store uint64) (int, string) {
	if peerOn(r.meta, store) == nil {
		return 500, fmt.Sprintf("region has no peer in store %v", store)
	}
	op := &operator{name: "remove-peer", region: r.meta.GetId(), remove: store, created: s.now(), status: pdpb.OperatorStatus_RUNNING}
	s.addLocked(op)
	return 0, ""
}

// replicasLocked is what a region's leader has to do about its peers; nil is nothing. A leader that is to be removed hands
// the region over first.
func (s *Server) replicasLocked(r *region) (*pdpb.ChangePeer, *pdpb.TransferLeader) {
	op := s.runningLocked(r.meta.GetId())
	if op == nil || op.remove == 0 {
		return s.makeUpLocked(r, op), nil
	}
	peer := peerOn(r.meta, op.remove)
	if peer == nil {
		s.endLocked(op, pdpb.OperatorStatus_SUCCESS)
		s.disk.lacking[op.region] = true
		return s.makeUpLocked(r, nil), nil
	}
	if r.leader.GetStoreId() != op.remove {
		return &pdpb.ChangePeer{Peer: peer, ChangeType: eraftpb.ConfChangeType_RemoveNode}, nil
	}
	i := slices.IndexFunc(r.meta.GetPeers(), func(p *metapb.Peer) bool { return p.GetStoreId() != op.remove && s.canLeadLocked(r, p) })
	if i < 0 {
		return nil, nil
	}
	to := r.meta.GetPeers()[i]
	return nil, &pdpb.TransferLeader{Peer: to, Peers: []*metapb.Peer{to}}
}

// makeUpLocked is the replica checker's next step. With replica-schedule-limit at 0, as in a hold or a restore, it does nothing.
func (s *Server) makeUpLocked(r *region, op *operator) *pdpb.ChangePeer {
	if op != nil || !s.disk.lacking[r.meta.GetId()] || !s.coordinatorLocked() || s.numberConfigLocked("schedule.replica-schedule-limit") < 1 {
		return nil
	}
	for _, p := range r.meta.GetPeers() {
		if p.GetRole() != metapb.PeerRole_Learner {
			continue
		}
		if slices.ContainsFunc(r.pending, func(q *metapb.Peer) bool { return q.GetId() == p.GetId() }) {
			return nil
		}
		return &pdpb.ChangePeer{Peer: &metapb.Peer{Id: p.GetId(), StoreId: p.GetStoreId()}, ChangeType: eraftpb.ConfChangeType_AddNode}
	}
	if float64(len(r.meta.GetPeers())) >= s.numberConfigLocked("replication.max-replicas") {
		delete(s.disk.lacking, r.meta.GetId())
		return nil
	}
	for _, id := range sortedIDs(s.disk.stores) {
		if peerOn(r.meta, id) != nil || s.stateName(s.disk.stores[id]) != "Up" {
			continue
		}
		return &pdpb.ChangePeer{
			Peer:       &metapb.Peer{Id: s.allocLocked(), StoreId: id, Role: metapb.PeerRole_Learner},
			ChangeType: eraftpb.ConfChangeType_AddLearnerNode,
		}
	}
	return nil
}

func peerOn(r *metapb.Region, store uint64) *metapb.Peer {
	i := slices.IndexFunc(r.GetPeers(), func(p *metapb.Peer) bool { return p.GetStoreId() == store })
	if i < 0 {
		return nil
	}
	return r.GetPeers()[i]
}
