package tikvtest

import (
	"context"
	"math"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// resolvedLoop advances the resolved ts of the regions led here and reports the store's minimum.
func (s *Store) resolvedLoop(ctx context.Context) {
	ticker := time.NewTicker(s.opts.ResolvedTSInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		k := s.strikeAt(ctx, "ResolvedTS")
		if k.refuse != nil || k.region != nil {
			continue
		}
		fresh, err := s.pd.FreshTS(ctx)
		if err != nil {
			continue
		}
		s.advanceResolved(ctx, fresh)
		if lowest := s.minResolved(fresh); lowest > 0 {
			_, _ = s.pd.ReportMinResolvedTS(ctx, &pdpb.ReportMinResolvedTsRequest{
				Header: s.header(), StoreId: s.id, MinResolvedTs: lowest,
			})
		}
	}
}

// advanceResolved: a region's resolved ts is the smaller of a timestamp taken before the look and its lowest
// lock. The leader must have applied an entry of its own term before, and a majority must know it after the
// timestamp was taken, or a newer leader may have committed below it. A transaction whose locks are not seen
// yet gets its commit ts later, so above.
//
// Commit timestamps that the store makes itself are above it from now on; what is about to get one begins after its start.
func (s *Store) advanceResolved(ctx context.Context, fresh uint64) {
	s.maxTS.raise(fresh)
	fresh = s.maxTS.lowest(fresh)
	for _, p := range s.allPeers() {
		v := p.look()
		if !v.ready() {
			continue
		}
		ts := fresh
		s.data.view(func(r mvcc.Reader) {
			if lowest, locked := mvcc.MinLockTS(r, boundsOf(v.region), s.flushing.lowest); locked {
				ts = min(ts, lowest)
			}
		})
		// The keys were read after v, so v's applied index is not above what ts is good for; a split in
		// between left this view a larger region, which is lower at worst.
		if !s.majorityKnows(p.regionID, p.id, v) {
			continue
		}
		if !s.initialized(ctx, p) {
			continue
		}
		now := p.look()
		if now.region.RegionEpoch.Version != v.region.RegionEpoch.Version {
			continue // a merge in between made it a larger region, whose locks were not seen
		}
		index := now.applied
		p.mu.Lock()
		p.resolved = max(p.resolved, ts)
		p.mu.Unlock()
		for _, member := range v.region.Peers {
			if other, _ := s.net.reach(s, member.StoreId); member.StoreId != s.id && other != nil {
				other.hearResolved(p.regionID, ts, index)
			}
		}
	}
}

// initialized reports whether the leader has read the region's locks. A fault at ResolvedTS.Initialize keeps it from that.
func (s *Store) initialized(ctx context.Context, p *peer) bool {
	p.mu.Lock()
	done := p.resolved > 0
	p.mu.Unlock()
	if done {
		return true
	}
	k := s.strikeAt(ctx, "ResolvedTS.Initialize")
	return k.refuse == nil && k.region == nil
}

// lowerResolved makes the resolved ts that of the region and of one that was merged into it.
func (p *peer) lowerResolved(source *peer) {
	source.mu.Lock()
	resolved := source.resolved
	source.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resolved, p.nextResolved = min(p.resolved, resolved), 0 // 0: to be read again
}

// hearResolved takes a leader's word. It holds once this peer has applied as much as the leader had.
func (s *Store) hearResolved(region, ts, index uint64) {
	p := s.peer(region)
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settleResolved()
	if p.nextResolved == 0 {
		p.nextResolved, p.resolvedIndex = ts, index
	}
	p.settleResolved()
}

// settleResolved adopts what was heard as soon as it holds. The caller holds mu.
func (p *peer) settleResolved() {
	if p.nextResolved != 0 && p.view.applied >= p.resolvedIndex {
		p.resolved = max(p.resolved, p.nextResolved)
		p.nextResolved = 0
	}
}

// minResolved is the lowest resolved ts of all peers, leaders or not. As in TiKV it leaves out peers that are not
// initialized: the child of a split, and every peer after a start, until its locks were read (tikv/tikv#15506). It is 0
// while none is. A store without peers has nothing that is unresolved.
func (s *Store) minResolved(fresh uint64) uint64 {
	lowest := uint64(math.MaxUint64)
	for _, p := range s.allPeers() {
		p.mu.Lock()
		p.settleResolved()
		if p.resolved > 0 {
			lowest = min(lowest, p.resolved)
		}
		p.mu.Unlock()
	}
	switch {
	case lowest < math.MaxUint64:
		return lowest
	case len(s.allPeers()) == 0:
		return fresh
	}
	return 0
}
