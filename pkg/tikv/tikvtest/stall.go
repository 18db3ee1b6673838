package tikvtest

import (
	"fmt"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// StallLog makes the volume of the store's raft log take no writes for d, or until ResumeLog if d is 0 or less. Nothing of
// the log is durable or acknowledged meanwhile; the store continues otherwise, and its leaders apply what a majority has, as
// far as raftstore.max-apply-unpersisted-log-limit lets them. It is in force when this returns. A second call extends a
// stall or makes it shorter. A process that ends takes the stall with it: Kill loses what was not written.
func (s *Store) StallLog(d time.Duration) {
	s.inRaft(func() {
		s.raft.stall(true)
		if d > 0 {
			stalls := s.raft.stalls
			timer := time.AfterFunc(d, func() {
				s.raft.post(raftTask{fn: func(*peer) {
					if s.raft.stalls == stalls { // no other call came
						s.raft.stall(false)
					}
				}})
			})
			s.raft.stallTimer = timer
		}
	})
}

// ResumeLog ends StallLog: what has waited is written and acknowledged.
func (s *Store) ResumeLog() { s.inRaft(func() { s.raft.stall(false) }) }

// inRaft runs fn in the raft worker and returns when it has run, or the process is gone.
func (s *Store) inRaft(fn func()) {
	if s.opts.Static {
		return // it has no log
	}
	done := make(chan struct{})
	s.raft.post(raftTask{fn: func(*peer) {
		fn()
		close(done)
	}})
	select {
	case <-done:
	case <-s.done:
	}
}

func (w *raftWorker) stall(on bool) {
	if w.stallTimer != nil {
		w.stallTimer.Stop()
		w.stallTimer = nil
	}
	w.stalled = on
	w.stalls++
}

// skip marks the proposals of entries that are not applied as they are below the index that the data had when the peer was
// made. TiKV answers them never, and dies when it comes to one above.
func (p *peer) skip(entries []raftpb.Entry) error {
	for i := range entries {
		if entries[i].Index > p.born {
			return nil // it was handed out early
		}
		c, err := commandOf(&entries[i])
		if err != nil {
			return err
		}
		if c == nil {
			continue
		}
		p.mu.Lock()
		if prop := p.pending[c.id]; prop != nil {
			prop.skipped = entries[i].Index
		}
		p.mu.Unlock()
	}
	return nil
}

// unexpected is why TiKV dies when an entry is applied above one of the same term that was skipped and is waited for
// (fsm/apply.rs); "" if none is.
func (p *peer) unexpected(term, index uint64) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, prop := range p.pending {
		if prop.skipped > 0 && prop.term == term {
			return fmt.Sprintf("[region %d] %d unexpected callback at term %d, found index %d, expected %d",
				p.regionID, p.id, term, prop.skipped, index)
		}
	}
	return ""
}
