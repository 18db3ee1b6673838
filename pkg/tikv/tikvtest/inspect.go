package tikvtest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/tisnap/tisnap/pkg/standin/disk"
)

// PeerState is what a store has of a region, for tests.
type PeerState struct {
	Region    *metapb.Region // not to be changed
	PeerID    uint64
	Term      uint64
	LastIndex uint64
	Applied   uint64
	Durable   uint64 // what of it is on the data device
	Leader    bool
	LeaderID  uint64 // peer id of the leader that it knows, or 0
	Serving   bool   // leads and has applied an entry of its own term
	Resolved  uint64 // resolved ts
	Merging   bool   // gives itself to its neighbour
}

// Peers lists the store's peers by region id, as they are now.
func (s *Store) Peers() []PeerState {
	peers := s.allPeers()
	list := make([]PeerState, 0, len(peers))
	for _, p := range peers {
		v := p.look()
		p.mu.Lock()
		resolved := p.resolved
		p.mu.Unlock()
		list = append(list, PeerState{
			Region: v.region, PeerID: p.id, Term: v.term, LastIndex: v.lastIndex, Applied: v.applied,
			Leader: v.leader, LeaderID: v.lead, Serving: v.ready(), Resolved: resolved,
			Merging: v.merge != nil, Durable: s.data.persistedIndex(p.regionID),
		})
	}
	return list
}

// Blocks reports whether the store has given up the store with this id (Options.BlockUnknownStores).
func (s *Store) Blocks(id uint64) bool {
	_, blocked := s.blocked.Load(id)
	return blocked
}

// AwaitLeaders waits until the regions led and served by the stores tile the key space.
func AwaitLeaders(ctx context.Context, stores ...*Store) error {
	pause := 2 * time.Millisecond
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for !tiled(stores) {
		select {
		case <-timer.C:
			pause = min(2*pause, 100*time.Millisecond)
			timer.Reset(pause)
		case <-ctx.Done():
			return fmt.Errorf("wait for leaders: %w", ctx.Err())
		}
	}
	return nil
}

func tiled(stores []*Store) bool {
	var led []*metapb.Region
	for _, s := range stores {
		select {
		case <-s.done:
			continue
		default:
		}
		for _, p := range s.allPeers() {
			if v := p.look(); v.ready() {
				led = append(led, v.region)
			}
		}
	}
	slices.SortFunc(led, func(a, b *metapb.Region) int { return bytes.Compare(a.StartKey, b.StartKey) })
	var end []byte
	for i, r := range led {
		if !bytes.Equal(r.StartKey, end) || (i > 0 && len(end) == 0) {
			return false
		}
		end = r.EndKey
	}
	return len(led) > 0 && len(end) == 0
}

// OwnTimestamps counts the prewrites whose commit ts the store has made itself: those of asynchronous and of one-phase
// commits.
func (s *Store) OwnTimestamps() (async, onePhase int64) {
	return s.ownTS.async.Load(), s.ownTS.onePhase.Load()
}

// LeaseLeft is how long the prepare-snapshot lease still runs; 0 if there is none. Looking changes nothing.
func (s *Store) LeaseLeft() time.Duration { return s.lease.left(time.Now()) }

// ImportsDeniedFor is how long imports are still denied; 0 if they pass. Looking changes nothing.
func (s *Store) ImportsDeniedFor() time.Duration { return s.imports.left(time.Now()) }

// HasRaftLog reports whether the device holds the store's raft log.
func (s *Store) HasRaftLog(on *disk.Device) bool { return s.cfg.RaftLog == on }

// Hibernates reports whether the store leads the region and hibernates there: its followers hear nothing from it until
// something happens.
func (s *Store) Hibernates(region uint64) bool {
	asleep := make(chan bool, 1)
	s.raft.post(raftTask{region: region, fn: func(p *peer) { asleep <- p.asleep.Load() }})
	select {
	case is := <-asleep:
		return is
	case <-s.done:
		return false
	}
}
