package tikvtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pingcap/kvproto/pkg/eraftpb"
	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/raft_cmdpb"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// PeerChange adds a voter or a learner, makes a learner a voter or a voter a learner, or removes a peer.
type PeerChange = raft_cmdpb.ChangePeerRequest

// ChangePeers asks the store, which has to lead the region, to change its members, and returns when it has. One change is
// made at once. Several enter a joint state, in which the voters of before and after both decide, until a call without
// changes leaves it. It is refused under a lease, while another admin command of the region is on its way, and for the leader
// itself.
func (s *Store) ChangePeers(ctx context.Context, region uint64, changes ...*PeerChange) error {
	p := s.peer(region)
	if p == nil || !p.look().ready() {
		return fmt.Errorf("change peers of region %d: store %d does not lead it", region, s.id)
	}
	v := p.look()
	for _, c := range changes {
		if c.Peer.Id == p.id {
			return fmt.Errorf("change peers of region %d: its leader is on store %d", region, s.id)
		}
	}
	if _, err := changePeers(v.region, changes); err != nil {
		return fmt.Errorf("change peers of region %d: %w", region, err)
	}
	e, err := s.replicate(ctx, p, v, &command{admin: &raft_cmdpb.AdminRequest{
		CmdType: raft_cmdpb.AdminCmdType_ChangePeerV2, ChangePeerV2: &raft_cmdpb.ChangePeerV2Request{Changes: changes},
	}}, nil)
	if err == nil && e != nil {
		err = errors.New(e.Message)
	}
	return err
}

// confChange is the entry's form of the command, for raft.
func (c *command) confChange() raftpb.ConfChangeV2 {
	cc := raftpb.ConfChangeV2{Context: c.encode()}
	kinds := map[eraftpb.ConfChangeType]raftpb.ConfChangeType{
		eraftpb.ConfChangeType_AddNode:        raftpb.ConfChangeAddNode,
		eraftpb.ConfChangeType_AddLearnerNode: raftpb.ConfChangeAddLearnerNode,
		eraftpb.ConfChangeType_RemoveNode:     raftpb.ConfChangeRemoveNode,
	}
	for _, change := range c.admin.ChangePeerV2.Changes {
		cc.Changes = append(cc.Changes, raftpb.ConfChangeSingle{Type: kinds[change.ChangeType], NodeID: change.Peer.Id})
	}
	if len(cc.Changes) > 1 {
		cc.Transition = raftpb.ConfChangeTransitionJointExplicit
	}
	return cc
}

func (c *command) changesPeers() bool {
	return c.admin != nil && c.admin.CmdType == raft_cmdpb.AdminCmdType_ChangePeerV2
}

// changePeers is the region after the changes, by TiKV's rules.
func changePeers(r *metapb.Region, changes []*PeerChange) (*metapb.Region, error) {
	next, joint := copyRegion(r), isJoint(r)
	next.Peers = nil
	for _, member := range r.Peers {
		c := *member
		next.Peers = append(next.Peers, &c)
	}
	if len(changes) == 0 {
		return leaveJoint(next, joint)
	}
	if joint {
		return nil, errors.New("it is in a joint state")
	}
	for _, c := range changes {
		if err := changePeer(next, c, len(changes) > 1); err != nil {
			return nil, err
		}
	}
	next.RegionEpoch.ConfVer += uint64(len(changes))
	return next, nil
}

func leaveJoint(r *metapb.Region, joint bool) (*metapb.Region, error) {
	if !joint {
		return nil, errors.New("it is in no joint state")
	}
	for _, member := range r.Peers {
		switch member.Role {
		case metapb.PeerRole_IncomingVoter:
			member.Role = metapb.PeerRole_Voter
		case metapb.PeerRole_DemotingVoter:
			member.Role = metapb.PeerRole_Learner
		default:
			continue
		}
		r.RegionEpoch.ConfVer++
	}
	return r, nil
}

func changePeer(r *metapb.Region, c *PeerChange, joint bool) error {
	i := slices.IndexFunc(r.Peers, func(p *metapb.Peer) bool { return p.StoreId == c.Peer.StoreId })
	voter := metapb.PeerRole_Voter
	if joint {
		voter = metapb.PeerRole_IncomingVoter
	}
	switch {
	case i >= 0 && r.Peers[i].Id != c.Peer.Id:
		return fmt.Errorf("store %d has another peer of it", c.Peer.StoreId)
	case i < 0 && c.ChangeType == eraftpb.ConfChangeType_RemoveNode:
		return fmt.Errorf("store %d has no peer of it", c.Peer.StoreId)
	case i < 0 && c.ChangeType == eraftpb.ConfChangeType_AddLearnerNode:
		r.Peers = append(r.Peers, &metapb.Peer{Id: c.Peer.Id, StoreId: c.Peer.StoreId, Role: metapb.PeerRole_Learner, IsWitness: c.Peer.IsWitness})
	case i < 0:
		r.Peers = append(r.Peers, &metapb.Peer{Id: c.Peer.Id, StoreId: c.Peer.StoreId, Role: voter, IsWitness: c.Peer.IsWitness})
	case c.ChangeType == eraftpb.ConfChangeType_RemoveNode && joint && r.Peers[i].Role == metapb.PeerRole_Voter:
		return errors.New("a voter is demoted before it is removed")
	case c.ChangeType == eraftpb.ConfChangeType_RemoveNode:
		r.Peers = slices.Delete(r.Peers, i, i+1)
	case c.ChangeType == eraftpb.ConfChangeType_AddNode && r.Peers[i].Role == metapb.PeerRole_Learner:
		r.Peers[i].Role = voter
	case c.ChangeType == eraftpb.ConfChangeType_AddLearnerNode && r.Peers[i].Role == metapb.PeerRole_Voter && joint:
		r.Peers[i].Role = metapb.PeerRole_DemotingVoter
	case c.ChangeType == eraftpb.ConfChangeType_AddLearnerNode && r.Peers[i].Role == metapb.PeerRole_Voter:
		r.Peers[i].Role = metapb.PeerRole_Learner
	default:
		return fmt.Errorf("peer %d is that already", c.Peer.Id)
	}
	return nil
}

func isJoint(r *metapb.Region) bool {
	return slices.ContainsFunc(r.Peers, func(p *metapb.Peer) bool {
		return p.Role == metapb.PeerRole_IncomingVoter || p.Role == metapb.PeerRole_DemotingVoter
	})
}

// confState is the region's members as raft knows them.
func confState(r *metapb.Region) raftpb.ConfState {
	var cs raftpb.ConfState
	joint := isJoint(r)
	for _, p := range r.Peers {
		switch p.Role {
		case metapb.PeerRole_Voter:
			cs.Voters = append(cs.Voters, p.Id)
			if joint {
				cs.VotersOutgoing = append(cs.VotersOutgoing, p.Id)
			}
		case metapb.PeerRole_IncomingVoter:
			cs.Voters = append(cs.Voters, p.Id)
		case metapb.PeerRole_DemotingVoter:
			cs.VotersOutgoing = append(cs.VotersOutgoing, p.Id)
			cs.LearnersNext = append(cs.LearnersNext, p.Id)
		case metapb.PeerRole_Learner:
			cs.Learners = append(cs.Learners, p.Id)
		}
	}
	return cs
}

// quorum reports whether a majority of the region's voters agrees; in a joint state, of those of before and of after.
func quorum(r *metapb.Region, agrees func(*metapb.Peer) bool) bool {
	cs, yes := confState(r), map[uint64]bool{}
	for _, p := range r.Peers {
		yes[p.Id] = p.Role != metapb.PeerRole_Learner && agrees(p)
	}
	majority := func(ids []uint64) bool {
		n := 0
		for _, id := range ids {
			if yes[id] {
				n++
			}
		}
		return len(ids) == 0 || n > len(ids)/2
	}
	return majority(cs.Voters) && majority(cs.VotersOutgoing)
}

// changed is the state after a change of members: none, with all keys gone, on a store that is no member any more.
func (w *applyWorker) changed(p *peer, v peerView, changes []*PeerChange) ([]localState, []mvcc.Mutation) {
	next, err := changePeers(v.region, changes)
	if err != nil {
		w.store.crash("change of peers of region %d: %v", p.regionID, err) // it was checked, and nothing came between
		return nil, nil
	}
	if peerByID(next, p.id) == nil {
		return []localState{{region: next, gone: true}}, w.store.data.deletions(boundsOf(next))
	}
	return []localState{{region: next, done: v.done, merge: v.merge}}, nil
}

// dismiss informs the stores of removed peers: the entry that removes them is not sent to them any more.
func (s *Store) dismiss(before, after *metapb.Region) {
	for _, member := range before.Peers {
		if peerByID(after, member.Id) != nil {
			continue
		}
		if other, _ := s.net.reach(s, member.StoreId); other != nil && other != s {
			other.applier.dismissed(member.Id, after)
		}
	}
}

// dismissed destroys a peer that is no member of the region any more, after what is queued for it.
func (w *applyWorker) dismissed(id uint64, by *metapb.Region) {
	p := w.store.peer(by.Id)
	if p == nil || p.id != id || p.look().region.RegionEpoch.ConfVer >= by.RegionEpoch.ConfVer {
		return
	}
	w.enqueue(&applyBatch{peer: p, dismissedBy: by})
}

func (w *applyWorker) destroyDismissed(p *peer, by *metapb.Region) {
	v := p.look()
	if v.destroyed || v.region.RegionEpoch.ConfVer >= by.RegionEpoch.ConfVer || v.merge != nil {
		return
	}
	w.store.data.apply(p.regionID, v.applied, v.appliedTerm,
		[]localState{{region: v.region, gone: true}}, w.store.data.deletions(boundsOf(v.region)))
	w.store.destroy(p.regionID)
}

// pendingAdmin reports whether the leader has proposed a command that it has not applied and that changes the region.
func (p *peer) pendingAdmin() bool {
	return p.proposed(func(c *command) bool { return c.admin != nil && c.admin.CmdType != raft_cmdpb.AdminCmdType_CompactLog })
}

// proposed reports whether a command like this is on its way.
func (p *peer) proposed(is func(*command) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, prop := range p.pending {
		if is(prop.command) {
			return true
		}
	}
	return false
}

// checkMember lets a peer be destroyed that the other side of a message knows to be removed: this store's, to which messages
// go that are meant for its successor, or the sender, which would be elected.
func (w *raftWorker) checkMember(p *peer, from uint64, m raftpb.Message) {
	sender, _ := w.store.net.reach(w.store, from)
	own := p.look().region
	if sender == nil || own == nil {
		return
	}
	if m.To != p.id {
		if other := sender.peer(p.regionID); other != nil && peerByID(other.look().region, p.id) == nil {
			w.store.applier.dismissed(p.id, other.look().region)
		}
		return
	}
	if (m.Type == raftpb.MsgVote || m.Type == raftpb.MsgPreVote) && peerByID(own, m.From) == nil {
		sender.applier.dismissed(m.From, own)
	}
}

func adminPending(region uint64) *errorpb.Error {
	return serverIsBusy(fmt.Sprintf("region %d has an admin command on its way", region), 0)
}
