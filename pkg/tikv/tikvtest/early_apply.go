package tikvtest

import (
	"strconv"
	"strings"
	"sync/atomic"

	"go.etcd.io/raft/v3"
)

// defaultEarlyApply is raftstore.max-apply-unpersisted-log-limit since TiKV 8.2 (tikv/tikv#16717).
const defaultEarlyApply = 1024

// earlyApply is the store's raftstore.max-apply-unpersisted-log-limit, and how many leaders use it.
type earlyApply struct {
	known     bool
	limit     atomic.Uint64
	persisted atomic.Bool // it was changed in the store's file, too
	leaders   atomic.Int64
	touched   atomic.Bool // the gauge was set once
}

// EarlyApplyLimit is the limit of the running store, and whether it has the setting.
func (s *Store) EarlyApplyLimit() (limit uint64, known bool) {
	return s.early.limit.Load(), s.early.known
}

// EarlyApplyPersisted reports whether a change of the limit was written into the store's file, which is not played further:
// tisnap must not.
func (s *Store) EarlyApplyPersisted() bool { return s.early.persisted.Load() }

func (s *Store) version() string {
	if s.cfg.Version == "" {
		return "8.5.8"
	}
	return strings.TrimPrefix(s.cfg.Version, "v")
}

// configureEarlyApply is what a store begins with: its file's value or its version's default.
func (s *Store) configureEarlyApply() {
	major, minor := s.release()
	s.early.known = !s.opts.NoEarlyApply && (major > 8 || major == 8 && minor >= 1)
	switch {
	case !s.early.known:
	case s.opts.EarlyApply != nil:
		s.early.limit.Store(*s.opts.EarlyApply)
	case major > 8 || minor >= 2:
		s.early.limit.Store(defaultEarlyApply)
	}
}

func (s *Store) release() (major, minor int) {
	parts := strings.SplitN(s.version(), ".", 3)
	if len(parts) < 2 {
		return 0, 0
	}
	major, _ = strconv.Atoi(parts[0])
	minor, _ = strconv.Atoi(parts[1])
	return major, minor
}

// EarlyAppliers is how many of the store's leaders may apply early now.
func (s *Store) EarlyAppliers() int64 {
	n, _ := s.earlyAppliers()
	return n
}

// earlyAppliers is the gauge. A static store's leaders adopt a change at once.
func (s *Store) earlyAppliers() (n int64, touched bool) {
	if !s.opts.Static {
		return s.early.leaders.Load(), s.early.touched.Load()
	}
	if !s.early.known {
		return 0, false
	}
	if s.early.limit.Load() > 0 {
		n = int64(len(s.allPeers()))
	}
	return n, true
}

// peerEarly is what a peer knows of early apply. It belongs to the raft worker.
type peerEarly struct {
	limit uint64 // as the peer has adopted it
	now   uint64 // in effect; 0 is off
	from  uint64 // off until this index is applied; 0: nothing is waited for
	slept int    // ticks since it hibernated
}

// adopt takes over an online change, at the peer's tick. It may lower what is in effect and does not raise it from 0: that
// comes with the next leader change (measured on TiKV 8.5.8).
func (w *raftWorker) adopt(p *peer) {
	p.early.slept = 0
	p.early.limit = w.store.early.limit.Load()
	if p.early.now > p.early.limit {
		w.setEarly(p, p.early.limit)
	}
}

// adoptAsleep is adopt of a hibernated peer, which ticks only each peer-stale-state-check-interval.
func (w *raftWorker) adoptAsleep(p *peer) {
	p.early.slept++
	if p.early.slept >= w.store.opts.StaleCheckTicks {
		w.adopt(p)
	}
}

// suspendEarly turns early apply off until the peer has applied what it knows now (peer.rs, disable_apply_unpersisted_log):
// at each change of role or term, and when a merge is prepared.
func (w *raftWorker) suspendEarly(p *peer, last uint64) {
	p.early.from = max(p.early.from, last)
	w.setEarly(p, 0)
}

// resumeEarly turns it on for a leader that has applied what it waited for (peer.rs, maybe_update_apply_unpersisted_log_state).
func (w *raftWorker) resumeEarly(p *peer) {
	if p.early.from == 0 || p.look().applied < p.early.from {
		return
	}
	if p.node.BasicStatus().RaftState != raft.StateLeader {
		return
	}
	p.early.from = 0
	w.setEarly(p, p.early.limit)
}

func (w *raftWorker) setEarly(p *peer, limit uint64) {
	was := p.early.now
	p.early.now = limit
	switch {
	case was == 0 && limit > 0:
		w.store.early.leaders.Add(1)
		w.store.early.touched.Store(true)
	case was > 0 && limit == 0:
		w.store.early.leaders.Add(-1)
	}
}
