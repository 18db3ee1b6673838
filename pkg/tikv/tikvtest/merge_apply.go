package tikvtest

import (
	"bytes"
	"math"
	"time"

	"github.com/pingcap/kvproto/pkg/raft_cmdpb"
	"go.etcd.io/raft/v3/raftpb"
)

// catchUpInterval is how often a target checks whether its source has applied all that the merge needs.
const catchUpInterval = time.Millisecond

// prepareMerge is the source's state after PrepareMerge: both of its epochs grow, and it takes no more writes.
func prepareMerge(v peerView, req *raft_cmdpb.PrepareMergeRequest, index uint64) []localState {
	r := copyRegion(v.region)
	r.RegionEpoch.Version++
	r.RegionEpoch.ConfVer++
	return []localState{{region: r, done: v.done, merge: &mergeState{target: req.Target, commit: index}}}
}

// rollbackMerge is the source's state after RollbackMerge: one region again, with a newer version.
func rollbackMerge(v peerView, req *raft_cmdpb.RollbackMergeRequest) []localState {
	if v.merge == nil || v.merge.commit != req.Commit {
		return nil
	}
	r := copyRegion(v.region)
	r.RegionEpoch.Version++
	return []localState{{region: r, done: v.done}}
}

// commitMerge is what a store has after CommitMerge: the target with both ranges, and no source.
func commitMerge(v peerView, req *raft_cmdpb.CommitMergeRequest) []localState {
	r, source := copyRegion(v.region), req.Source
	if bytes.Equal(source.EndKey, r.StartKey) && len(r.StartKey) > 0 {
		r.StartKey = source.StartKey
	} else {
		r.EndKey = source.EndKey
	}
	r.RegionEpoch.Version = max(r.RegionEpoch.Version, source.RegionEpoch.Version) + 1
	return []localState{{region: r, done: v.done}, {region: source, gone: true}}
}

// sourceBehind reports whether the entry is a CommitMerge whose source has still to apply its PrepareMerge here. It
// makes the source commit as far as that: the source's leader may be gone already. A log that is too short for it ends
// the process, as it does on a real store whose volume was cut without a lease.
func (w *applyWorker) sourceBehind(p *peer, e *raftpb.Entry) bool {
	v := p.look()
	if e.Index <= v.applied || v.destroyed {
		return false
	}
	c, err := commandOf(e)
	if err != nil || c == nil || c.admin == nil || c.admin.CmdType != raft_cmdpb.AdminCmdType_CommitMerge || w.refuse(v.region, c) != nil {
		return false
	}
	commit := c.admin.CommitMerge.Commit
	source := w.store.peer(c.admin.CommitMerge.Source.Id)
	if source == nil || source.look().applied >= commit {
		return false
	}
	w.store.raft.post(raftTask{region: source.regionID, fn: func(s *peer) {
		status := s.node.BasicStatus()
		if status.Commit >= commit {
			return
		}
		for _, member := range s.look().region.Peers {
			if member.Id != s.id {
				_ = s.node.Step(raftpb.Message{
					Type: raftpb.MsgHeartbeat, From: member.Id, To: s.id, Term: status.Term, Commit: commit,
				})
				return
			}
		}
	}})
	return true
}

// postpone puts the rest of a batch off until its source has caught up; what comes later for the region waits behind it.
func (w *applyWorker) postpone(b *applyBatch, from int) {
	b.entries = b.entries[from:]
	b.due = time.Now().Add(catchUpInterval)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behind[b.peer.regionID] = b
}

// destroy ends a source whose range the target has taken over.
func (s *Store) destroy(region uint64) {
	p := s.peer(region)
	if p == nil {
		return
	}
	s.mu.Lock()
	delete(s.peers, region)
	s.sorted = nil
	s.mu.Unlock()
	p.publish(func(v *peerView) { v.destroyed, v.leader, v.merge = true, false, nil })
	s.raft.post(raftTask{region: region, fn: s.raft.remove})
	for _, prop := range p.takeOlder(math.MaxUint64) {
		prop.done(regionNotFound(region))
	}
}
