package tikvtest

import (
	"container/heap"
	"context"
	"errors"
	"math/rand"
	"slices"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/raft_cmdpb"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// applyWorker carries out committed entries of all regions in one goroutine, each region's in order.
// Followers lag behind at random, so that the peers of a region are at different positions.
type applyWorker struct {
	store *Store
	rand  *rand.Rand

	mu    sync.Mutex
	queue applyQueue
	last  map[uint64]time.Time // by region: when the newest batch is due
	// behind holds, by region, what waits for the source of a merge to catch up.
	behind map[uint64]*applyBatch
	next   uint64
	wake   chan struct{}
}

type applyBatch struct {
	due     time.Time
	number  uint64
	peer    *peer
	entries []raftpb.Entry
	// dismissedBy is, behind all entries, the region that the peer is no member of any more.
	dismissedBy *metapb.Region
}

func newApplyWorker(s *Store, seed int64) *applyWorker {
	return &applyWorker{
		store: s, rand: newRand(seed, s.id), last: map[uint64]time.Time{}, behind: map[uint64]*applyBatch{}, wake: make(chan struct{}, 1),
	}
}

// submit queues committed entries. It never blocks.
func (w *applyWorker) submit(p *peer, entries []raftpb.Entry) {
	w.enqueue(&applyBatch{peer: p, entries: entries})
}

func (w *applyWorker) enqueue(b *applyBatch) {
	p := b.peer
	w.mu.Lock()
	if lag := w.store.opts.ApplyLag; lag > 0 && !w.store.recovering {
		if !p.look().leader {
			b.due = time.Now().Add(time.Duration(w.rand.Int63n(int64(lag))))
		}
		if last := w.last[p.regionID]; b.due.Before(last) {
			b.due = last
		}
		w.last[p.regionID] = b.due
	}
	b.number = w.next
	w.next++
	heap.Push(&w.queue, b)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *applyWorker) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		b, wait := w.pop()
		if b != nil {
			if !w.apply(ctx, b) || ctx.Err() != nil {
				return
			}
			continue
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
		}
	}
}

// pop returns the next batch that is due, or how long to wait for it.
func (w *applyWorker) pop() (*applyBatch, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	soonest := time.Hour
	for id, b := range w.behind {
		wait := time.Until(b.due)
		if wait <= 0 {
			delete(w.behind, id)
			return b, 0
		}
		soonest = min(soonest, wait)
	}
	for len(w.queue) > 0 {
		if wait := time.Until(w.queue[0].due); wait > 0 {
			return nil, min(wait, soonest)
		}
		b := heap.Pop(&w.queue).(*applyBatch) //nolint:errcheck // it holds nothing else
		first := w.behind[b.peer.regionID]
		if first == nil {
			return b, 0
		}
		first.entries = append(first.entries, b.entries...)
		if b.dismissedBy != nil {
			first.dismissedBy = b.dismissedBy
		}
	}
	return nil, soonest
}

func (w *applyWorker) apply(ctx context.Context, b *applyBatch) bool {
	for i := range b.entries {
		e := &b.entries[i]
		if w.sourceBehind(b.peer, e) {
			w.postpone(b, i)
			return true
		}
		if err := w.applyEntry(ctx, b.peer, e); err != nil {
			w.store.crash("apply index %d of region %d: %v", e.Index, b.peer.regionID, err)
			return false
		}
	}
	if b.dismissedBy != nil {
		w.destroyDismissed(b.peer, b.dismissedBy)
	}
	return true
}

// applyEntry carries out one entry and answers the proposer, if it is here.
func (w *applyWorker) applyEntry(ctx context.Context, p *peer, e *raftpb.Entry) error {
	v := p.look()
	if e.Index <= v.applied || v.destroyed {
		return nil
	}
	var prop *proposal
	var refusal *errorpb.Error
	var states []localState
	var muts []mvcc.Mutation
	var admin *raft_cmdpb.AdminRequest
	c, err := commandOf(e)
	if err != nil {
		return err
	}
	if c != nil {
		if why := p.unexpected(e.Term, e.Index); why != "" {
			return errors.New(why)
		}
		prop, admin = p.take(c.id), c.admin
		if admin != nil { // only a delay means anything here
			_ = w.store.strikeAt(ctx, "Apply."+admin.CmdType.String())
		}
		if refusal = w.refuse(v.region, c); refusal == nil {
			if !isWitness(v.region, p.id) {
				muts = c.muts
			}
			switch {
			case c.changesPeers():
				states, muts = w.changed(p, v, admin.ChangePeerV2.Changes)
			case admin != nil:
				states = w.admin(p, v, c, e.Index)
			}
		}
	}
	w.store.data.apply(p.regionID, e.Index, e.Term, states, muts)
	p.publish(func(v *peerView) {
		v.applied, v.appliedTerm = e.Index, e.Term
		for _, s := range states {
			if s.region.Id == p.regionID {
				v.region, v.done, v.merge = s.region, s.done, s.merge
			}
		}
	})
	w.afterStates(p, v, states)
	if c != nil && c.changesPeers() && v.leader && len(states) == 1 {
		w.store.dismiss(v.region, states[0].region)
	}
	if prop != nil {
		prop.done(refusal)
	}
	if v.appliedTerm != e.Term {
		for _, stale := range p.takeOlder(e.Term) {
			stale.done(staleCommand())
		}
		w.store.reports.add(p.regionID)
	}
	return nil
}

// refuse repeats at apply time what was checked when the command was proposed: the region may have been split
// or prepared for a flashback in between.
func (w *applyWorker) refuse(r *metapb.Region, c *command) *errorpb.Error {
	if c.admin != nil && c.admin.CmdType == raft_cmdpb.AdminCmdType_CompactLog || c.changesPeers() {
		return nil // raft has changed the members already; see propose
	}
	if c.version != r.RegionEpoch.Version || c.confVer != r.RegionEpoch.ConfVer {
		return w.store.epochNotMatch(r, &metapb.RegionEpoch{Version: c.version, ConfVer: c.confVer})
	}
	switch {
	case c.admin != nil && c.admin.CmdType == raft_cmdpb.AdminCmdType_PrepareFlashback:
		return nil // a newer start_ts takes over
	case c.flashback && !r.IsInFlashback:
		return flashbackNotPrepared(r.Id)
	case !c.flashback && r.IsInFlashback:
		return flashbackInProgress(r)
	}
	return nil
}

// admin carries out an admin command and returns the local states that it changes.
func (w *applyWorker) admin(p *peer, v peerView, c *command, index uint64) []localState {
	switch c.admin.CmdType {
	case raft_cmdpb.AdminCmdType_CompactLog:
		p.mu.Lock()
		p.truncateTo = max(p.truncateTo, c.admin.CompactLog.CompactIndex)
		p.mu.Unlock()
	case raft_cmdpb.AdminCmdType_BatchSplit:
		return splitStates(v.region, c.admin.Splits)
	case raft_cmdpb.AdminCmdType_PrepareMerge:
		return prepareMerge(v, c.admin.PrepareMerge, index)
	case raft_cmdpb.AdminCmdType_RollbackMerge:
		return rollbackMerge(v, c.admin.RollbackMerge)
	case raft_cmdpb.AdminCmdType_CommitMerge:
		return commitMerge(v, c.admin.CommitMerge)
	case raft_cmdpb.AdminCmdType_PrepareFlashback:
		r := copyRegion(v.region)
		r.IsInFlashback, r.FlashbackStartTs = true, c.admin.PrepareFlashback.StartTs
		return []localState{{region: r, done: v.done}}
	case raft_cmdpb.AdminCmdType_FinishFlashback:
		r := copyRegion(v.region)
		r.IsInFlashback, r.FlashbackStartTs = false, 0
		return []localState{{region: r, done: c.finished}}
	}
	return nil
}

// afterStates makes the peers of new regions, which campaign at once where the parent leads, and ends those of
// regions that were merged. The resolved ts of a target is that of both.
func (w *applyWorker) afterStates(p *peer, before peerView, states []localState) {
	for _, s := range states {
		switch {
		case s.gone && s.region.Id == p.regionID: // it is no member any more
			w.store.destroy(s.region.Id)
		case s.gone:
			if source := w.store.peer(s.region.Id); source != nil {
				p.lowerResolved(source)
			}
			w.store.destroy(s.region.Id)
		case s.region.Id != p.regionID:
			w.store.addPeer(s, initialIndex, initialTerm, before.leader)
		}
	}
	if len(states) > 0 {
		w.store.reports.add(p.regionID)
	}
}

// splitStates are the states after a right-derived split: the new regions take the left parts in order, the
// old one keeps the rest.
func splitStates(r *metapb.Region, splits *raft_cmdpb.BatchSplitRequest) []localState {
	version := r.RegionEpoch.Version + uint64(len(splits.Requests))
	derived := copyRegion(r)
	derived.RegionEpoch.Version = version
	states := make([]localState, 0, len(splits.Requests)+1)
	start := r.StartKey
	for _, req := range splits.Requests {
		child := copyRegion(r)
		child.Id, child.StartKey, child.EndKey = req.NewRegionId, start, req.SplitKey
		child.RegionEpoch.Version = version
		child.Peers = slices.Clone(r.Peers)
		for i, member := range r.Peers {
			child.Peers[i] = &metapb.Peer{Id: req.NewPeerIds[i], StoreId: member.StoreId, Role: member.Role, IsWitness: member.IsWitness}
		}
		states = append(states, localState{region: child})
		start = req.SplitKey
	}
	derived.StartKey = start
	return append(states, localState{region: derived})
}

// applyQueue orders batches by when they are due.
type applyQueue []*applyBatch

// Len implements heap.Interface.
func (q applyQueue) Len() int { return len(q) }

// Less implements heap.Interface.
func (q applyQueue) Less(i, j int) bool {
	if !q[i].due.Equal(q[j].due) {
		return q[i].due.Before(q[j].due)
	}
	return q[i].number < q[j].number
}

// Swap implements heap.Interface.
func (q applyQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *applyQueue) Push(x any) { *q = append(*q, x.(*applyBatch)) } //nolint:errcheck // as above

// Pop implements heap.Interface.
func (q *applyQueue) Pop() any {
	old := *q
	n := len(old) - 1
	b := old[n]
	old[n] = nil
	*q = old[:n]
	return b
}
