package tikvtest

import (
	"math"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// storageWrite is what a peer's Ready has put into the log's buffer, and what is to be sent when it is on the device.
type storageWrite struct {
	peer      *peer
	state     logState
	responses []raftpb.Message
}

// logState is how far a region's log is on the device.
type logState struct {
	hard raftpb.HardState
	last uint64
}

// handleReady carries out what raft wants until it wants nothing more. It reports whether to continue. Raft writes its
// storage asynchronously (raft.Config.AsyncStorageWrites): what depends on the log waits until the log is on the device,
// which is at once unless the log stalls; see StallLog.
func (w *raftWorker) handleReady() bool {
	type work struct {
		p     *peer
		ready raft.Ready
	}
	for len(w.touch) > 0 || len(w.unwritten) > 0 && !w.stalled {
		touched := w.touch
		w.touch = nil
		todo := make([]work, 0, len(touched))
		for _, p := range touched {
			p.queued = false
			var rd raft.Ready
			if p.node.HasReady() {
				rd = p.node.Ready()
			}
			if err := w.stage(p, rd); err != nil {
				w.store.crash("snapshot of region %d: %v", p.regionID, err)
				return false
			}
			todo = append(todo, work{p, rd})
		}
		written, err := w.write()
		if err != nil {
			w.store.crash("raft log: %v", err)
			return false
		}
		for _, t := range todo {
			w.publish(t.p, t.ready)
			w.send(t.p, t.ready.Messages)
			if err := w.release(t.p, t.ready); err != nil {
				w.store.crash("change of members of region %d: %v", t.p.regionID, err)
				return false
			}
		}
		for _, done := range written {
			w.respond(done.peer, done.responses)
		}
	}
	return true
}

// stage puts into the log's buffer what a Ready wants to be on the device.
func (w *raftWorker) stage(p *peer, rd raft.Ready) error {
	i := slices.IndexFunc(rd.Messages, func(m raftpb.Message) bool { return m.To == raft.LocalAppendThread })
	if i < 0 {
		return nil
	}
	if !raft.IsEmptySnap(rd.Snapshot) {
		if err := w.install(p, &rd.Snapshot); err != nil {
			return err
		}
	}
	if len(rd.Entries) > 0 || !raft.IsEmptyHardState(rd.HardState) {
		w.log.save(p.regionID, rd.HardState, rd.Entries)
	}
	log := w.log.region(p.regionID)
	w.unwritten = append(w.unwritten, storageWrite{p, logState{log.hard, log.last()}, rd.Messages[i].Responses})
	return nil
}

// write makes durable what was staged, unless the log stalls, and returns what that was.
func (w *raftWorker) write() ([]storageWrite, error) {
	if w.stalled {
		return nil, nil
	}
	if err := w.log.flush(w.store.opts.CheckpointBytes); err != nil {
		return nil, err
	}
	done := w.unwritten
	w.unwritten = nil
	for _, d := range done {
		d.peer.onDevice = d.state
	}
	return done, nil
}

// release hands on what may be applied: what raft has committed, and what a leader may apply before its own log has it.
func (w *raftWorker) release(p *peer, rd raft.Ready) error {
	if err := w.handOut(p, rd.CommittedEntries); err != nil {
		return err
	}
	if i := slices.IndexFunc(rd.Messages, func(m raftpb.Message) bool { return m.To == raft.LocalApplyThread }); i >= 0 {
		w.respond(p, rd.Messages[i].Responses)
	}
	if p.early.now == 0 {
		return nil
	}
	to := min(p.node.BasicStatus().Commit, p.onDevice.last+p.early.now)
	if to <= p.handed {
		return nil
	}
	early, err := w.log.region(p.regionID).Entries(p.handed+1, to+1, math.MaxUint64)
	if err != nil {
		return err
	}
	return w.handOut(p, early)
}

// handOut gives the applier those of the committed entries that it has not got yet, and lets raft know of the members that
// they change. The region's state follows when they are applied. What the data had already when the peer was made is
// skipped, whoever has proposed it: no proposer gets an answer.
func (w *raftWorker) handOut(p *peer, entries []raftpb.Entry) error {
	fresh := slices.IndexFunc(entries, func(e raftpb.Entry) bool { return e.Index > p.handed })
	if fresh < 0 {
		fresh = len(entries)
	}
	if err := p.skip(entries[:fresh]); err != nil {
		return err
	}
	if entries = entries[fresh:]; len(entries) == 0 {
		return nil
	}
	if err := reconfigure(p, entries); err != nil {
		return err
	}
	p.handed = entries[len(entries)-1].Index
	w.store.applier.submit(p, entries)
	return nil
}

// respond does what was to be done once a peer's write, or what it has handed on, is done: raft and other stores are let know.
func (w *raftWorker) respond(p *peer, responses []raftpb.Message) {
	if w.peers[p.regionID] != p {
		return // it was destroyed meanwhile
	}
	var others []raftpb.Message
	for _, m := range responses {
		if m.To != p.id {
			others = append(others, m)
			continue
		}
		_ = p.node.Step(m) // an error means that raft ignores the message
	}
	w.send(p, others)
	w.look(p)
}

// reconfigure lets raft know of the members that are changed by committed entries.
func reconfigure(p *peer, committed []raftpb.Entry) error {
	for i := range committed {
		if committed[i].Type != raftpb.EntryConfChangeV2 {
			continue
		}
		var cc raftpb.ConfChangeV2
		if err := cc.Unmarshal(committed[i].Data); err != nil {
			return err
		}
		p.node.ApplyConfChange(cc)
	}
	return nil
}

// publish shows the others what a Ready changed. It comes before the messages: who hears of a vote can
// already see the term.
func (w *raftWorker) publish(p *peer, rd raft.Ready) {
	if rd.SoftState == nil && raft.IsEmptyHardState(rd.HardState) && len(rd.Entries) == 0 {
		return
	}
	last := w.log.region(p.regionID).last()
	status := p.node.BasicStatus()
	became, another := false, false
	p.publish(func(v *peerView) {
		became = v.leader != (status.RaftState == raft.StateLeader)
		another = became || v.term != status.Term
		v.term, v.vote, v.lead, v.lastIndex = status.Term, status.Vote, status.Lead, last
		v.leader = status.RaftState == raft.StateLeader
	})
	if another {
		w.suspendEarly(p, last)
	}
	if became {
		w.store.reports.add(p.regionID)
	}
}

// send sends those messages that go to other stores.
func (w *raftWorker) send(p *peer, messages []raftpb.Message) {
	if len(messages) == 0 {
		return
	}
	region := p.look().region
	for _, m := range messages {
		store, met := p.contacts[m.To]
		if region != nil {
			if to := peerByID(region, m.To); to != nil {
				store, met = to.StoreId, true
			}
		}
		if !met {
			continue
		}
		m.Entries = slices.Clone(m.Entries) // raft keeps its array
		w.store.net.send(w.store, store, p.regionID, m)
		if m.Type == raftpb.MsgSnap { // one that was dropped is sent again
			w.post(raftTask{region: p.regionID, fn: func(p *peer) { p.node.ReportSnapshot(m.To, raft.SnapshotFinish) }})
		}
	}
}
