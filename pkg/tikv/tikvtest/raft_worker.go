package tikvtest

import (
	"cmp"
	"context"
	"math"
	"math/rand"
	"slices"
	"sync"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/raft_cmdpb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// stashedVotes is how many regions that are not there yet may have vote requests kept for them, as TiKV does: a
// split is applied at different times, and the first campaign would be lost.
const stashedVotes = 4096

// raftWorker runs all raft groups of a store in one goroutine: it takes what came in, lets raft look at it, makes the log
// durable with one flush, and only then acknowledges entries and hands on those that are committed.
type raftWorker struct {
	store *Store
	log   *raftLog
	peers map[uint64]*peer
	order []*peer // by region id, for ticks
	votes map[uint64][]raftMessage
	touch []*peer
	// unwritten are the log's writes that are not on the device, in their order.
	unwritten  []storageWrite
	stalled    bool
	stalls     int // how often a stall began or ended
	stallTimer *time.Timer

	mu    sync.Mutex
	inbox []raftTask
	wake  chan struct{}
}

// raftTask is one thing to do: a message, a proposal, or a function on a peer or, with region 0, the worker.
type raftTask struct {
	region   uint64
	messages []raftpb.Message
	from     uint64
	proposal *proposal
	fn       func(p *peer)
	create   *peer
	campaign bool
}

type raftMessage struct {
	from    uint64
	message raftpb.Message
}

func newRaftWorker(s *Store, l *raftLog) *raftWorker {
	return &raftWorker{
		store: s, log: l, peers: map[uint64]*peer{}, votes: map[uint64][]raftMessage{}, wake: make(chan struct{}, 1),
	}
}

// post hands the worker something to do. It never blocks.
func (w *raftWorker) post(t raftTask) {
	w.mu.Lock()
	w.inbox = append(w.inbox, t)
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *raftWorker) receive(region, from uint64, messages []raftpb.Message) {
	w.post(raftTask{region: region, from: from, messages: messages})
}

func (w *raftWorker) run(ctx context.Context) {
	defer w.failPending()
	defer w.stall(false)
	defer func() {
		// What raft cannot live with ends a TiKV with a FATAL log line.
		if r := recover(); r != nil {
			p, ok := r.(raftPanic)
			if !ok {
				panic(r)
			}
			w.store.crash("%s", p.text)
		}
	}()
	ticker := time.NewTicker(w.store.opts.TickInterval)
	defer ticker.Stop()
	gc := time.NewTicker(w.store.opts.LogGCInterval)
	defer gc.Stop()
	merges := time.NewTicker(w.store.opts.MergeCheckInterval)
	defer merges.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-ticker.C:
			w.tick()
		case <-gc.C:
			w.collectLogs()
		case <-merges.C:
			w.checkMerges(ctx)
		}
		w.mu.Lock()
		tasks := w.inbox
		w.inbox = nil
		w.mu.Unlock()
		for _, t := range tasks {
			w.do(t)
		}
		if !w.handleReady() {
			return
		}
	}
}

func (w *raftWorker) do(t raftTask) {
	if t.create != nil {
		w.create(t.create, t.campaign)
		return
	}
	p := w.peers[t.region]
	switch {
	case t.fn != nil:
		if p != nil || t.region == 0 {
			t.fn(p)
		}
	case t.proposal != nil:
		w.propose(p, t.proposal)
	default:
		for _, m := range t.messages {
			w.step(p, t.region, t.from, m)
		}
	}
	if p != nil {
		w.look(p)
	}
}

func (w *raftWorker) step(p *peer, region, from uint64, m raftpb.Message) {
	if p != nil && p.look().region == nil && m.To != p.id {
		w.remove(p) // it was removed before it had anything, and another one was added
		p = nil
	}
	if p == nil {
		if p = w.newMember(region, from, m); p != nil {
			defer w.look(p)
		}
	}
	if p == nil {
		vote := m.Type == raftpb.MsgVote || m.Type == raftpb.MsgPreVote
		if vote && len(w.votes[region]) < 8 && len(w.votes) < stashedVotes {
			w.votes[region] = append(w.votes[region], raftMessage{from, m})
		}
		return
	}
	w.checkMember(p, from, m)
	if m.To != p.id || w.leaderLives(p, m) || m.Type == raftpb.MsgSnap && !w.fits(p, m.Snapshot) {
		return
	}
	p.meet(m.From, from)
	// Heartbeats are no reason to stay awake.
	if m.Type != raftpb.MsgHeartbeat && m.Type != raftpb.MsgHeartbeatResp {
		p.stayAwake()
	}
	_ = p.node.Step(w.asVoted(p, m)) // an error means that raft ignores the message
}

// leaderLives is raft's lease rule for vote requests, by reachability in place of clocks, as hibernated regions
// have none: while the leader lives, no other peer is elected unless the leader asked for it. It wakes a
// hibernated leader, whose heartbeat then reaches the candidate. In recovery mode the rule is off.
func (w *raftWorker) leaderLives(p *peer, m raftpb.Message) bool {
	if (m.Type != raftpb.MsgVote && m.Type != raftpb.MsgPreVote) || len(m.Context) > 0 || w.store.recovering {
		return false
	}
	status := p.node.BasicStatus()
	if status.Lead == p.id {
		p.stayAwake()
		return status.Term >= m.Term || m.Type == raftpb.MsgPreVote
	}
	region := p.look().region
	if region == nil {
		return false
	}
	leader := peerByID(region, status.Lead)
	if leader == nil || status.Lead == m.From {
		return false
	}
	target, _ := w.store.net.reach(w.store, leader.StoreId)
	return target != nil
}

// look puts the peer on the list of those to handle.
func (w *raftWorker) look(p *peer) {
	if !p.queued {
		p.queued = true
		w.touch = append(w.touch, p)
	}
}

// create makes the raft group of a peer, from what its log holds.
func (w *raftWorker) create(p *peer, campaign bool) {
	v := p.look()
	log := w.log.region(p.regionID)
	log.members = raftpb.ConfState{}
	if v.region != nil {
		log.members = confState(v.region)
	}
	log.snapshot = func() (raftpb.Snapshot, error) { return w.store.data.snapshotOf(p.regionID) }
	if v.applied > log.last() && w.store.data.asItCame(p.regionID) {
		// It crashed when the data of a snapshot were durable, and the log was not yet.
		log.hard.Term = max(log.hard.Term, v.appliedTerm)
		w.log.reset(p.regionID, v.applied, v.appliedTerm, log.hard)
	}
	if v.applied > log.last() && !w.store.early.known {
		w.store.crash("applied index %d of region %d is above the last index %d", v.applied, p.regionID, log.last())
		return
	}
	// The commit index on the device may be old. The data of a store that applied early may be ahead of the log: TiKV starts,
	// and skips what it gets up to there (entry_storage.rs).
	log.hard.Commit = min(max(log.hard.Commit, v.applied), log.last())
	p.born, p.handed, p.onDevice = v.applied, v.applied, logState{log.hard, log.last()}
	elections := w.store.opts.ElectionTicks
	if w.store.recovering {
		elections = math.MaxInt32 / 4 // no election but by RecoverRegion
	}
	node, err := raft.NewRawNode(&raft.Config{
		ID: p.id, ElectionTick: elections, HeartbeatTick: 2, Storage: log, Applied: min(v.applied, log.hard.Commit), AsyncStorageWrites: true,
		MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 256, PreVote: !w.store.recovering, StepDownOnRemoval: true,
		DisableProposalForwarding: true, Logger: raftLogger{w.store},
	})
	if err != nil {
		w.store.crash("raft group of region %d: %v", p.regionID, err)
		return
	}
	p.node = node
	p.early.limit = w.store.early.limit.Load()
	w.remove(w.peers[p.regionID]) // one that had nothing yet: a split has made it
	w.peers[p.regionID] = p
	i, _ := slices.BinarySearchFunc(w.order, p.regionID, func(q *peer, id uint64) int { return cmp.Compare(q.regionID, id) })
	w.order = slices.Insert(w.order, i, p)
	p.publish(func(v *peerView) { v.term, v.vote, v.lastIndex = log.hard.Term, log.hard.Vote, log.last() })
	if campaign || len(log.members.Voters) == 1 && log.members.Voters[0] == p.id { // a single voter elects itself, in recovery mode too
		_ = node.Campaign()
	}
	for _, m := range w.votes[p.regionID] {
		w.step(p, p.regionID, m.from, m.message)
	}
	delete(w.votes, p.regionID)
	w.look(p)
}

// remove ends a raft group.
func (w *raftWorker) remove(p *peer) {
	if p == nil {
		return
	}
	w.setEarly(p, 0)
	delete(w.peers, p.regionID)
	w.order = slices.DeleteFunc(w.order, func(q *peer) bool { return q == p })
}

// propose appends a command to the log if the peer leads.
func (w *raftWorker) propose(p *peer, prop *proposal) {
	if p == nil {
		prop.done(regionNotFound(0))
		return
	}
	status := p.node.BasicStatus()
	if status.RaftState != raft.StateLeader || status.Term != prop.term {
		prop.done(notLeader(p.look())) // what the command was computed from may be old
		return
	}
	// As in TiKV, whose observer stands before the proposal: a lease may have come since who proposes it looked.
	if prop.command.beginsAdmin() {
		if e := w.store.suspendedAdmin(); e != nil {
			prop.done(e)
			return
		}
	}
	p.stayAwake()
	changes := prop.command.changesPeers()
	if changes && p.pendingAdmin() {
		prop.done(adminPending(p.regionID)) // it would be applied to another region than it was made for
		return
	}
	p.mu.Lock()
	p.pending[prop.command.id] = prop
	p.mu.Unlock()
	if admin := prop.command.admin; admin != nil && admin.CmdType == raft_cmdpb.AdminCmdType_PrepareMerge {
		w.suspendEarly(p, w.log.region(p.regionID).last()+1) // peer.rs, pre_propose_prepare_merge
	}
	var err error
	if changes {
		err = p.node.ProposeConfChange(prop.command.confChange())
	} else {
		err = p.node.Propose(prop.command.encode())
	}
	if err != nil {
		if prop := p.take(prop.command.id); prop != nil {
			prop.done(serverIsBusy("proposal dropped: "+err.Error(), 0))
		}
	}
}

// failPending answers the proposers that the store is going away.
func (w *raftWorker) failPending() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.inbox {
		if t.proposal != nil {
			t.proposal.done(serverIsBusy("store is stopping", 0))
		}
	}
	w.inbox = nil
	for _, p := range w.peers {
		for _, prop := range p.takeOlder(math.MaxUint64) {
			prop.done(&errorpb.Error{Message: "store is stopping"})
		}
	}
}

// newRand is a source of its own for each worker, so that runs with the same seed draw alike.
func newRand(seed int64, stream uint64) *rand.Rand {
	return rand.New(rand.NewSource(seed*1_000_003 + int64(stream)))
}
