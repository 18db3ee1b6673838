package tikvtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// BootstrapCluster makes a new cluster of stores that were started with empty devices and one PD: it
// bootstraps PD, registers the stores, and makes the first region with a peer on each of the first three. It
// returns when that region has a leader that serves.
func BootstrapCluster(ctx context.Context, stores ...*Store) error {
	return BootstrapRegions(ctx, stores)
}

// BootstrapRegions is BootstrapCluster with the key space cut at raw keys from the start: see Placement.
func BootstrapRegions(ctx context.Context, stores []*Store, keys ...[]byte) error {
	return Bootstrap(ctx, stores, Placement{Keys: keys})
}

// Placement is how the regions of a new cluster are placed. The key space is cut at raw keys; each region has peers on
// so many stores (or all, if there are fewer), taken in turn, and the leader on the first of them: that is how more stores
// than replicas come to share the regions, as peers never move.
type Placement struct {
	Keys     [][]byte
	Replicas int // 0 is 3
}

// Bootstrap is BootstrapCluster with the regions placed.
func Bootstrap(ctx context.Context, stores []*Store, placement Placement) error {
	if len(stores) == 0 {
		return errors.New("bootstrap cluster: no stores")
	}
	if err := registerStores(ctx, stores); err != nil {
		return fmt.Errorf("bootstrap cluster: %w", err)
	}
	bounds := [][]byte{nil}
	for _, k := range placement.Keys {
		bounds = append(bounds, mvcc.EncodeKey(k))
	}
	slices.SortFunc(bounds, bytes.Compare)
	bounds = slices.CompactFunc(bounds, bytes.Equal)
	type placed struct {
		region *metapb.Region
		stores []*Store
	}
	var regions []placed
	for i, start := range bounds {
		var members []*Store
		for n := range min(cmp.Or(placement.Replicas, 3), len(stores)) {
			members = append(members, stores[(i+n)%len(stores)])
		}
		end := bounds[(i+1)%len(bounds)] // nil after the last
		region, err := newRegion(ctx, start, end, members...)
		if err != nil {
			return fmt.Errorf("bootstrap cluster: %w", err)
		}
		region.RegionEpoch.Version = 2 // newer than the region that PD was bootstrapped with
		regions = append(regions, placed{region, members})
		for _, s := range members {
			s.data.apply(region.Id, initialIndex, initialTerm, []localState{{region: region}}, nil)
		}
	}
	for _, s := range stores {
		if err := s.data.flush(s.opts.CheckpointBytes); err != nil {
			return fmt.Errorf("bootstrap cluster: store %d: %w", s.id, err)
		}
	}
	for _, r := range regions {
		// The leader is made last, so that the others hear of its election.
		for i, s := range slices.Backward(r.stores) {
			s.addPeer(localState{region: r.region}, initialIndex, initialTerm, i == 0)
		}
	}
	return AwaitLeaders(ctx, stores...)
}

// registerStores bootstraps PD with a region that is replaced at once, and registers all stores.
func registerStores(ctx context.Context, stores []*Store) error {
	first := stores[0]
	region, err := newRegion(ctx, nil, nil, first)
	if err != nil {
		return err
	}
	resp, err := first.pd.Bootstrap(ctx, &pdpb.BootstrapRequest{Header: first.header(), Store: first.meta(), Region: region})
	if err := pdError(resp.GetHeader(), err); err != nil {
		return err
	}
	for _, s := range stores {
		if err := s.putStore(ctx); err != nil {
			return fmt.Errorf("store %d: %w", s.id, err)
		}
	}
	return nil
}

// newRegion is a region with encoded bounds and a peer on each store, with ids from PD.
func newRegion(ctx context.Context, start, end []byte, stores ...*Store) (*metapb.Region, error) {
	id, err := stores[0].allocID(ctx)
	if err != nil {
		return nil, err
	}
	region := &metapb.Region{Id: id, StartKey: start, EndKey: end, RegionEpoch: &metapb.RegionEpoch{Version: 1}}
	for _, s := range stores {
		id, err := s.allocID(ctx)
		if err != nil {
			return nil, err
		}
		region.Peers = append(region.Peers, &metapb.Peer{Id: id, StoreId: s.id})
	}
	region.RegionEpoch.ConfVer = uint64(2*len(stores) - 1) // as if the peers had been added one by one
	return region, nil
}
