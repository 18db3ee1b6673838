package tikvtest

import (
	"bytes"
	"slices"

	"github.com/pingcap/kvproto/pkg/metapb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// A new member of a region begins with nothing, and gets a snapshot from its leader: the region's keys and state at one
// applied index. Members that have a log never need one, as leaders keep what the slowest of them lacks.

// snapshotOf is the region as the store has applied it.
func (e *kvEngine) snapshotOf(region uint64) (raftpb.Snapshot, error) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	p := e.regions[region]
	if p == nil {
		return raftpb.Snapshot{}, raft.ErrSnapshotTemporarilyUnavailable
	}
	state := p.localState
	muts := e.within(boundsOf(state.region), false)
	return raftpb.Snapshot{
		Data: encodeApply(recordSnapshot, region, p.applied, p.appliedTerm, []localState{state}, muts),
		Metadata: raftpb.SnapshotMetadata{
			Index: p.applied, Term: p.appliedTerm, ConfState: confState(state.region),
		},
	}, nil
}

// deletions takes all keys of the range away.
func (e *kvEngine) deletions(keys mvcc.Range) []mvcc.Mutation {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.within(keys, true)
}

// within lists the keys of the range, or their deletions. The caller holds mu.
func (e *kvEngine) within(keys mvcc.Range, remove bool) []mvcc.Mutation {
	var muts []mvcc.Mutation
	for cf := range mvcc.CF(cfCount) {
		reader{e}.Ascend(cf, keys.Start, keys.End, func(k, v []byte) bool {
			m := mvcc.Mutation{CF: cf, Key: k, Value: v}
			if remove {
				m = mvcc.Mutation{CF: cf, Key: k, Delete: true}
			}
			muts = append(muts, m)
			return true
		})
	}
	return muts
}

// snapshotState is the region's state in a snapshot.
func snapshotState(snap *raftpb.Snapshot) (localState, []mvcc.Mutation, error) {
	d := &decoder{b: snap.Data}
	d.byte()
	_, _, _, _ = d.uint(), d.uint(), d.uint(), d.uint() // region, index, term, one state
	state := decodeLocalState(d)
	return state, d.mutations(), d.err
}

// newMember makes the peer that a leader on another store sends messages to, if the store was made a member of the region.
// It has to wait while another region is where it comes: one that has still to be split, or a removed peer.
func (w *raftWorker) newMember(region, from uint64, m raftpb.Message) *peer {
	if m.Type != raftpb.MsgApp && m.Type != raftpb.MsgHeartbeat && m.Type != raftpb.MsgSnap {
		return nil
	}
	sender, _ := w.store.net.reach(w.store, from)
	if sender == nil {
		return nil
	}
	leader := sender.peer(region)
	if leader == nil {
		return nil
	}
	as := leader.look().region
	if own := peerByID(as, m.To); own == nil || own.StoreId != w.store.id || w.occupied(as) {
		return nil
	}
	if log := w.log.peers[region]; log == nil || log.truncIndex > 0 || len(log.entries) > 0 {
		// What an earlier peer has left is taken away for good before its log is.
		if err := w.store.data.flush(w.store.opts.CheckpointBytes); err != nil {
			w.store.crash("data: %v", err)
			return nil
		}
		w.log.reset(region, 0, 0, raftpb.HardState{})
	}
	p := &peer{regionID: region, id: m.To, pending: map[uint64]*proposal{}}
	w.create(p, false)
	if p.node == nil {
		return nil
	}
	return p
}

// occupied reports whether a region's peer is in the range, or data of one are: a split is in the data in one piece, and
// its regions become peers one after the other.
func (w *raftWorker) occupied(r *metapb.Region) bool {
	return w.store.data.occupied(r) || slices.ContainsFunc(w.store.allPeers(), func(q *peer) bool { return overlap(r, q.look().region) })
}

// occupied reports whether a region of the store is in the range.
func (e *kvEngine) occupied(r *metapb.Region) bool {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, p := range e.regions {
		if overlap(r, p.region) {
			return true
		}
	}
	return false
}

func overlap(a, b *metapb.Region) bool {
	return (len(a.EndKey) == 0 || bytes.Compare(b.StartKey, a.EndKey) < 0) && (len(b.EndKey) == 0 || bytes.Compare(a.StartKey, b.EndKey) < 0)
}

// fits reports whether a snapshot may come now.
func (w *raftWorker) fits(p *peer, snap *raftpb.Snapshot) bool {
	state, _, err := snapshotState(snap)
	return err == nil && p.look().region == nil && peerByID(state.region, p.id) != nil && !w.occupied(state.region)
}

// install gives the peer the state of the snapshot. Its data are durable before its log is, so that what it acknowledges is
// there after a crash.
func (w *raftWorker) install(p *peer, snap *raftpb.Snapshot) error {
	state, muts, err := snapshotState(snap)
	if err != nil {
		return err
	}
	if isWitness(state.region, p.id) {
		muts = nil
	}
	index, term := snap.Metadata.Index, snap.Metadata.Term
	w.store.data.applySnapshot(p.regionID, index, term, state, muts)
	if err := w.store.data.flush(w.store.opts.CheckpointBytes); err != nil {
		return err
	}
	w.log.reset(p.regionID, index, term, w.log.region(p.regionID).hard)
	p.publish(func(v *peerView) {
		v.region, v.done, v.merge = state.region, state.done, state.merge
		v.applied, v.appliedTerm = index, term
	})
	w.store.mu.Lock()
	w.store.peers[p.regionID] = p
	w.store.sorted = nil
	w.store.mu.Unlock()
	return nil
}
