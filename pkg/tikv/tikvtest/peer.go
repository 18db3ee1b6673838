package tikvtest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"go.etcd.io/raft/v3"
)

// peer is a store's replica of a region.
type peer struct {
	regionID uint64
	id       uint64
	latch    latch

	// These belong to the raft worker. node is nil until the worker has made it.
	node     *raft.RawNode
	queued   bool        // in the worker's list of peers to look at
	quiet    int         // ticks without a message
	asleep   atomic.Bool // a hibernated leader; reads look at it
	logGCed  uint64
	early    peerEarly
	born     uint64   // what the data had applied when the peer was made
	handed   uint64   // up to here entries are the applier's
	onDevice logState // of the log; the rest of it is still to be written
	// contacts are the stores of peers that the region's state here does not have yet, or any more, by peer id.
	contacts map[uint64]uint64

	mu      sync.Mutex
	view    peerView
	pending map[uint64]*proposal
	changed chan struct{} // closed at the next change of view; nil if nothing waits

	resolved      uint64 // resolved ts; never goes back
	nextResolved  uint64 // sent by the leader, good once applied reaches resolvedIndex
	resolvedIndex uint64
	maxTSSynced   leadership
	waitsApply    bool // a prepare-snapshot WaitApply is under way
	truncateTo    uint64
}

// peerView is what the rest of the store sees of a peer. region is never changed in place.
type peerView struct {
	region      *metapb.Region // nil before the first snapshot, in the raft worker alone
	done        finishedFlashback
	merge       *mergeState // nil while it gives itself to no neighbour
	destroyed   bool        // merged into its neighbour
	term        uint64
	vote        uint64
	lead        uint64 // peer id of the leader, 0 if there is none
	leader      bool
	lastIndex   uint64
	applied     uint64
	appliedTerm uint64
}

// proposal is a command on its way. done is called exactly once, with nil when it was applied; it must not block.
type proposal struct {
	command *command
	term    uint64 // of the leader that computed it
	skipped uint64 // its entry's index, if that was skipped: see peer.skip. It belongs to peer.mu
	done    func(*errorpb.Error)
}

func newPeer(state localState, applied, appliedTerm, storeID uint64) *peer {
	p := &peer{regionID: state.region.Id, pending: map[uint64]*proposal{}}
	p.view = peerView{region: state.region, done: state.done, merge: state.merge, applied: applied, appliedTerm: appliedTerm}
	if own := peerOn(state.region, storeID); own != nil {
		p.id = own.Id
	}
	return p
}

// peerOn returns the region's peer on a store, or nil.
func peerOn(r *metapb.Region, storeID uint64) *metapb.Peer {
	i := slices.IndexFunc(r.Peers, func(p *metapb.Peer) bool { return p.StoreId == storeID })
	if i < 0 {
		return nil
	}
	return r.Peers[i]
}

// peerByID returns the region's peer with an id, or nil.
func peerByID(r *metapb.Region, id uint64) *metapb.Peer {
	i := slices.IndexFunc(r.Peers, func(p *metapb.Peer) bool { return p.Id == id })
	if i < 0 {
		return nil
	}
	return r.Peers[i]
}

// meet remembers where a peer is that has sent a message.
func (p *peer) meet(id, store uint64) {
	if p.contacts == nil {
		p.contacts = map[uint64]uint64{}
	}
	p.contacts[id] = store
}

// look returns the view as it is now.
func (p *peer) look() peerView {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.view
}

// publish changes the view and wakes who waits for a change.
func (p *peer) publish(change func(v *peerView)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.view)
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// await blocks until ok holds for the view, and returns that view.
func (p *peer) await(ctx context.Context, ok func(v peerView) bool) (peerView, error) {
	for {
		p.mu.Lock()
		v := p.view
		if ok(v) {
			p.mu.Unlock()
			return v, nil
		}
		if p.changed == nil {
			p.changed = make(chan struct{})
		}
		changed := p.changed
		p.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return v, ctx.Err()
		}
	}
}

// ready reports whether a leader may serve: it has applied an entry of its own term, so nothing that was
// acknowledged before is missing.
func (v peerView) ready() bool { return v.leader && v.appliedTerm == v.term }

// take removes and returns the proposal with this id, or nil.
func (p *peer) take(id uint64) *proposal {
	p.mu.Lock()
	defer p.mu.Unlock()
	prop := p.pending[id]
	delete(p.pending, id)
	return prop
}

// takeOlder removes and returns the proposals of earlier terms: once an entry of a later term is applied,
// they can no longer be.
func (p *peer) takeOlder(term uint64) []*proposal {
	p.mu.Lock()
	defer p.mu.Unlock()
	var stale []*proposal
	for id, prop := range p.pending {
		if prop.term < term {
			stale = append(stale, prop)
			delete(p.pending, id)
		}
	}
	return stale
}
