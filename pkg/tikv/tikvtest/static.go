package tikvtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// A static store (Options.Static) has regions and no log: it answers for leases, imports, pending admin commands
// and applied logs with the very services of every other store, and serves no keys. Hundreds of them fit where
// three stores with raft do, for measuring a hold of a large cluster.

// BootstrapStatic makes a new cluster of static stores of which each leads the same number of regions, with
// replicas on the next two stores. It returns when PD knows all of them.
func BootstrapStatic(ctx context.Context, led int, stores ...*Store) error {
	if len(stores) == 0 || led < 1 {
		return errors.New("bootstrap static cluster: no stores or no regions")
	}
	if err := registerStores(ctx, stores); err != nil {
		return fmt.Errorf("bootstrap static cluster: %w", err)
	}
	total := led * len(stores)
	bound := func(i int) []byte {
		if i%total == 0 {
			return nil
		}
		return mvcc.EncodeKey(fmt.Appendf(nil, "t%08d", i))
	}
	for i := range total {
		leader := stores[i/led]
		var members []*Store
		for n := range min(3, len(stores)) {
			members = append(members, stores[(i/led+n)%len(stores)])
		}
		region, err := newRegion(ctx, bound(i), bound(i+1), members...)
		if err != nil {
			return fmt.Errorf("bootstrap static cluster: %w", err)
		}
		region.RegionEpoch.Version = 2 // newer than the region that PD was bootstrapped with
		if err := leader.give(ctx, region); err != nil {
			return fmt.Errorf("bootstrap static cluster: region %d: %w", region.Id, err)
		}
	}
	return nil
}

// give adds a region to a static store, as its leader with all applied, and reports it to PD.
func (s *Store) give(ctx context.Context, region *metapb.Region) error {
	p := newPeer(localState{region: region}, initialIndex, initialTerm, s.id)
	p.view.leader, p.view.lead, p.view.vote = true, p.id, p.id
	p.view.term, p.view.lastIndex = initialTerm, initialIndex
	s.mu.Lock()
	s.peers[p.regionID] = p
	s.sorted = nil
	s.mu.Unlock()
	resp, err := s.pd.ReportRegion(ctx, &pdpb.RegionHeartbeatRequest{
		Header: s.header(), Region: region, Leader: peerByID(region, p.id), Term: initialTerm, ApproximateSize: 96 << 20,
	})
	return pdError(resp.GetHeader(), err)
}

// staticLoop reports the store and its resolved ts, which nothing holds back. Regions were reported when they came
// into being, and are reported again only if PD has lost them.
func (s *Store) staticLoop(ctx context.Context) {
	ticker := time.NewTicker(s.opts.StoreHeartbeatInterval)
	defer ticker.Stop()
	for {
		s.reportStore(ctx)
		if k := s.strikeAt(ctx, "ResolvedTS"); k.refuse == nil && k.region == nil {
			if fresh, err := s.pd.FreshTS(ctx); err == nil {
				_, _ = s.pd.ReportMinResolvedTS(ctx, &pdpb.ReportMinResolvedTsRequest{
					Header: s.header(), StoreId: s.id, MinResolvedTs: fresh,
				})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
