package tikvtest

import (
	"bytes"
	"context"
	"time"

	"github.com/pingcap/kvproto/pkg/errorpb"
	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	"github.com/pingcap/kvproto/pkg/metapb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// kvCall is one key-value request, as far as the region is concerned.
type kvCall struct {
	name    string
	context *kvrpcpb.Context
	keys    [][]byte // encoded; of writes also what they latch, none meaning the whole region
	readTS  uint64   // of reads; a region that is prepared for a flashback still serves older ones
	// seenTS is, of a write, what it has to be above that is decided later: the starts of transactions that it ends.
	seenTS uint64
	// prewrite is the request if it is one.
	prewrite *kvrpcpb.PrewriteRequest
}

// flashbackCheck decides whether a request may pass given the region's flashback state.
type flashbackCheck func(r *metapb.Region) *errorpb.Error

func refuseInFlashback(r *metapb.Region) *errorpb.Error {
	if r.IsInFlashback {
		return flashbackInProgress(r)
	}
	return nil
}

func passFlashback(*metapb.Region) *errorpb.Error { return nil }

// admit makes TiKV's checks in TiKV's order: store, region, flashback, leader, peer, epoch. A leader that has
// not applied an entry of its own term is waited for.
func (s *Store) admit(ctx context.Context, c *kvrpcpb.Context, check flashbackCheck) (*peer, peerView, *errorpb.Error, error) {
	if p := s.peer(c.GetRegionId()); p != nil {
		if v := p.look(); check(v.region) == nil && v.leader && !v.ready() {
			if v, err := p.await(ctx, func(v peerView) bool { return !v.leader || v.ready() }); err != nil {
				return nil, v, nil, err
			}
		}
	}
	p, v, e := s.admitAtOnce(c, check)
	return p, v, e, nil
}

// admitAtOnce is admit of an admin command that reads nothing: TiKV proposes it whatever its leader has applied.
func (s *Store) admitAtOnce(c *kvrpcpb.Context, check flashbackCheck) (*peer, peerView, *errorpb.Error) {
	if id := c.GetPeer().GetStoreId(); id != 0 && id != s.id {
		return nil, peerView{}, storeNotMatch(id, s.id)
	}
	p := s.peer(c.GetRegionId())
	if p == nil {
		return nil, peerView{}, regionNotFound(c.GetRegionId())
	}
	v := p.look()
	if e := check(v.region); e != nil {
		return nil, v, e
	}
	if !v.leader {
		return nil, v, notLeader(v)
	}
	if id := c.GetPeer().GetId(); id != 0 && id != p.id {
		return nil, v, mismatchPeerID(id, p.id)
	}
	if isWitness(v.region, p.id) {
		return nil, v, onWitness(p.regionID)
	}
	epoch := v.region.RegionEpoch
	if c.GetRegionEpoch().GetVersion() != epoch.Version || c.GetRegionEpoch().GetConfVer() != epoch.ConfVer {
		return nil, v, s.epochNotMatch(v.region, c.GetRegionEpoch())
	}
	return p, v, nil
}

// outside returns the error for the first key that is not in the region, or nil.
func outside(r *metapb.Region, keys [][]byte) *errorpb.Error {
	for _, k := range keys {
		if !boundsOf(r).Contains(k) {
			return keyNotInRegion(k, r)
		}
	}
	return nil
}

func boundsOf(r *metapb.Region) mvcc.Range { return mvcc.Range{Start: r.StartKey, End: r.EndKey} }

// rangeOutside returns the error for a range of encoded keys that is larger than the region, or nil.
func rangeOutside(r *metapb.Region, start, end []byte) *errorpb.Error {
	if bytes.Compare(start, r.StartKey) < 0 {
		return keyNotInRegion(start, r)
	}
	if len(r.EndKey) > 0 && (len(end) == 0 || bytes.Compare(end, r.EndKey) > 0) {
		return keyNotInRegion(end, r)
	}
	return nil
}

// read runs fn on the region's data, as its leader. An error is the end of ctx or a fault.
func (s *Store) read(ctx context.Context, call kvCall, fn func(r mvcc.Reader, region *metapb.Region)) (*errorpb.Error, error) {
	k := s.strikeAt(ctx, call.name)
	if k.refuse != nil || k.region != nil {
		return k.region, k.refuse
	}
	p, v, e, err := s.admit(ctx, call.context, func(r *metapb.Region) *errorpb.Error {
		if r.IsInFlashback && call.readTS >= r.FlashbackStartTs {
			return flashbackInProgress(r)
		}
		return nil
	})
	if e != nil || err != nil {
		return e, err
	}
	if e := outside(v.region, call.keys); e != nil {
		return e, nil
	}
	if e, err := s.confirmLeader(ctx, p, v); e != nil || err != nil {
		return e, err
	}
	s.wakeToRead(p)
	if err := s.reading(ctx, call, v); err != nil {
		return nil, err
	}
	s.data.view(func(r mvcc.Reader) {
		// A split may have been applied meanwhile; the region's part that is left then answers for itself.
		if now := p.look(); now.destroyed {
			e = regionNotFound(p.regionID)
			return
		} else if now.region.RegionEpoch.Version != v.region.RegionEpoch.Version {
			e = s.epochNotMatch(now.region, call.context.GetRegionEpoch())
			return
		}
		fn(r, v.region)
	})
	return e, k.answer()
}

// wakeToRead wakes a hibernated leader: its lease has ended, so that a read needs a read index, which wakes its peer
// (peer.rs, read_index).
func (s *Store) wakeToRead(p *peer) {
	if p.asleep.Load() {
		s.raft.post(raftTask{region: p.regionID, fn: (*peer).stayAwake})
	}
}

// confirmLeader makes sure that no newer leader can have acknowledged anything: a majority of the region's
// stores still knows this one. It stands for TiKV's leader lease.
func (s *Store) confirmLeader(ctx context.Context, p *peer, v peerView) (*errorpb.Error, error) {
	if s.majorityKnows(p.regionID, p.id, v) {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(s.opts.ElectionTicks)*s.opts.TickInterval)
	defer cancel()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return notLeader(peerView{region: v.region}), nil
		case <-ticker.C:
		}
		if now := p.look(); now.term != v.term || !now.leader {
			return notLeader(now), nil
		}
		if s.majorityKnows(p.regionID, p.id, v) {
			return nil, nil
		}
	}
}

func (s *Store) majorityKnows(region, leader uint64, v peerView) bool {
	return quorum(v.region, func(member *metapb.Peer) bool {
		if member.StoreId == s.id {
			return true
		}
		other, _ := s.net.reach(s, member.StoreId)
		if other == nil {
			return false
		}
		q := other.peer(region)
		if q == nil {
			return false
		}
		seen := q.look()
		return seen.term == v.term && seen.lead == leader
	})
}

// write runs fn on the region's data, as its leader, replicates the mutations it returns, and returns when
// they are applied here. An error is the end of ctx or a fault; the write may then still happen.
func (s *Store) write(
	ctx context.Context, call kvCall, fn func(r mvcc.Reader, region *metapb.Region) []mvcc.Mutation,
) (*errorpb.Error, error) {
	k := s.strikeAt(ctx, call.name)
	if k.refuse != nil || k.region != nil {
		return k.region, k.refuse
	}
	p, v, e, err := s.admit(ctx, call.context, refuseInFlashback)
	if e != nil || err != nil {
		return e, err
	}
	if e := outside(v.region, call.keys); e != nil {
		return e, nil
	}
	release, err := p.latch.acquire(ctx, call.keys)
	if err != nil {
		return nil, err
	}
	// Much may have happened while it waited.
	p, v, e, err = s.admit(ctx, call.context, refuseInFlashback)
	if e != nil || err != nil {
		release()
		return e, err
	}
	s.maxTS.raise(call.seenTS)
	if call.prewrite != nil {
		end, e := s.futureOf(ctx, p, v, call.prewrite)
		if e != nil {
			release()
			return e, nil
		}
		latched := release
		release = func() {
			end()
			latched()
		}
	}
	var muts []mvcc.Mutation
	s.data.view(func(r mvcc.Reader) { muts = fn(r, v.region) })
	if len(muts) == 0 {
		release()
		return nil, k.answer()
	}
	e, err = s.replicate(ctx, p, v, &command{muts: muts}, release)
	if err == nil {
		err = k.answer()
	}
	return e, err
}

// replicate proposes a command computed on view v and returns when it is applied here. A region that merges into
// its neighbour takes none. release, if not nil,
// is called when the outcome is known, also if ctx ends before.
func (s *Store) replicate(ctx context.Context, p *peer, v peerView, c *command, release func()) (*errorpb.Error, error) {
	if v.merge != nil {
		if release != nil {
			release()
		}
		return proposalInMergingMode(p.regionID), nil
	}
	c.id = s.bootID + s.proposals.Add(1)
	c.version, c.confVer = v.region.RegionEpoch.Version, v.region.RegionEpoch.ConfVer
	outcome := make(chan *errorpb.Error, 1)
	s.raft.post(raftTask{region: p.regionID, proposal: &proposal{command: c, term: v.term, done: func(e *errorpb.Error) {
		if release != nil {
			release()
		}
		outcome <- e
	}}})
	select {
	case e := <-outcome:
		return e, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
