package tikvtest

import (
	"math"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// hibernateTicks is how long a leader stays awake after the last message when its followers have all.
const hibernateTicks = 20

// tick advances the clock of all peers that are not hibernated.
func (w *raftWorker) tick() {
	reachable := map[uint64]bool{} // by store, asked once a tick
	for _, p := range w.order {
		w.resumeEarly(p)
		if p.asleep.Load() {
			w.adoptAsleep(p)
			continue
		}
		p.quiet++
		if p.quiet > hibernateTicks && w.mayHibernate(p, reachable) {
			w.adoptAsleep(p)
			continue
		}
		w.adopt(p)
		p.node.Tick()
		w.look(p)
	}
}

// mayHibernate: a leader whose followers have everything, until something happens, and a follower while its
// leader's store is there.
func (w *raftWorker) mayHibernate(p *peer, reachable map[uint64]bool) bool {
	status := p.node.BasicStatus()
	if status.RaftState == raft.StateFollower && status.Lead != raft.None {
		region := p.look().region
		if region == nil {
			return false
		}
		leader := peerByID(region, status.Lead)
		if leader == nil {
			return false
		}
		ok, known := reachable[leader.StoreId]
		if !known {
			target, _ := w.store.net.reach(w.store, leader.StoreId)
			ok = target != nil
			reachable[leader.StoreId] = ok
		}
		return ok
	}
	if status.RaftState != raft.StateLeader || status.LeadTransferee != raft.None {
		return false
	}
	last := w.log.region(p.regionID).last()
	p.asleep.Store(w.slowest(p) == last && status.Commit == last)
	return p.asleep.Load()
}

// stayAwake restarts the time after which a peer may hibernate.
func (p *peer) stayAwake() {
	p.quiet = 0
	p.asleep.Store(false)
}

// slowest is the index that all peers of a region led here have in their logs.
func (w *raftWorker) slowest(p *peer) uint64 {
	index := uint64(math.MaxUint64)
	p.node.WithProgress(func(_ uint64, _ raft.ProgressType, pr tracker.Progress) { index = min(index, pr.Match) })
	return index
}

// collectLogs proposes CompactLog for the regions led here, never beyond what all peers have, and carries out
// those that were applied, never beyond what the data device has.
func (w *raftWorker) collectLogs() {
	keep := w.store.opts.LogKeep
	for _, p := range w.order {
		p.mu.Lock()
		to, v := p.truncateTo, p.view
		p.mu.Unlock()
		log := w.log.region(p.regionID)
		if to > log.truncIndex {
			w.log.truncate(p.regionID, min(to, w.store.data.persistedIndex(p.regionID)))
		}
		if w.store.recovering || !v.ready() {
			continue
		}
		if index := w.slowest(p); index > keep && index-keep > max(p.logGCed, log.truncIndex)+keep {
			p.logGCed = index - keep
			term, _ := log.Term(p.logGCed)
			w.store.proposeCompactLog(p, v, p.logGCed, term)
		}
	}
}
