package tikvtest

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// handleReady carries out what raft wants until it wants nothing more. It reports whether to continue.
func (w *raftWorker) handleReady() bool {
	type work struct {
		p     *peer
		ready raft.Ready
	}
	for len(w.touch) > 0 {
		touched := w.touch
		w.touch = nil
		todo := make([]work, 0, len(touched))
		for _, p := range touched {
			p.queued = false
			if !p.node.HasReady() {
				continue
			}
			rd := p.node.Ready()
			if !raft.IsEmptySnap(rd.Snapshot) {
				if err := w.install(p, &rd.Snapshot); err != nil {
					w.store.crash("snapshot of region %d: %v", p.regionID, err)
					return false
				}
			}
			if len(rd.Entries) > 0 || !raft.IsEmptyHardState(rd.HardState) {
				w.log.save(p.regionID, rd.HardState, rd.Entries)
			}
			todo = append(todo, work{p, rd})
		}
		if err := w.log.flush(w.store.opts.CheckpointBytes); err != nil {
			w.store.crash("raft log: %v", err)
			return false
		}
		for _, t := range todo {
			w.publish(t.p, t.ready)
			w.send(t.p, t.ready.Messages)
			if err := reconfigure(t.p, t.ready.CommittedEntries); err != nil {
				w.store.crash("change of members of region %d: %v", t.p.regionID, err)
				return false
			}
			if len(t.ready.CommittedEntries) > 0 {
				w.store.applier.submit(t.p, t.ready.CommittedEntries)
			}
			t.p.node.Advance(t.ready)
			w.look(t.p)
		}
	}
	return true
}

// reconfigure lets raft know of the members that are changed by committed entries. The region's state follows when they are
// applied.
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
