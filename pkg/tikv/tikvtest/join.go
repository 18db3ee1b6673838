package tikvtest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// identify settles cluster id, store id and mode from the data device and PD.
func (s *Store) identify(ctx context.Context, freshLog bool) error {
	boot, err := s.pd.IsBootstrapped(ctx, &pdpb.IsBootstrappedRequest{})
	if err != nil {
		return fmt.Errorf("ask pd: %w", err)
	}
	s.clusterID = boot.GetHeader().GetClusterId()
	marked, err := s.pd.IsSnapshotRecovering(ctx, &pdpb.IsSnapshotRecoveringRequest{Header: s.header()})
	if err != nil {
		s.logf("tikv: snapshot recovery mode not known, starting normally: %v", err)
	}
	s.recovering = marked.GetMarked()
	switch {
	case s.data.storeID == 0 && s.recovering:
		return errors.New("no store ident on the data volume: a store in recovery mode needs the data of a backup")
	case s.data.storeID == 0:
		if s.id, err = s.allocID(ctx); err != nil {
			return err
		}
		return s.data.setIdent(s.clusterID, s.id)
	case freshLog:
		return errors.New("no raft engine on the raft-log volume")
	}
	s.id = s.data.storeID
	if s.data.clusterID == s.clusterID {
		return nil
	}
	if !s.recovering {
		return fmt.Errorf("cluster id mismatch, local %d != remote %d; the data belong to another cluster", s.data.clusterID, s.clusterID)
	}
	return s.data.setIdent(s.clusterID, s.id)
}

func (s *Store) header() *pdpb.RequestHeader { return &pdpb.RequestHeader{ClusterId: s.clusterID} }

func (s *Store) allocID(ctx context.Context) (uint64, error) {
	resp, err := s.pd.AllocID(ctx, &pdpb.AllocIDRequest{Header: s.header(), Count: 1})
	if err := pdError(resp.GetHeader(), err); err != nil {
		return 0, fmt.Errorf("alloc id: %w", err)
	}
	return resp.GetId(), nil
}

// pdError joins the two ways in which PD says no.
func pdError(h *pdpb.ResponseHeader, err error) error {
	if err != nil {
		return err
	}
	if e := h.GetError(); e != nil && e.Type != pdpb.ErrorType_OK {
		return fmt.Errorf("pd: %s: %s", e.Type, e.Message)
	}
	return nil
}

// join tells PD of the store, if PD is bootstrapped. In recovery mode whoever comes first bootstraps PD with
// a region that exists in PD only.
func (s *Store) join(ctx context.Context) error {
	boot, err := s.pd.IsBootstrapped(ctx, &pdpb.IsBootstrappedRequest{Header: s.header()})
	if err != nil {
		return fmt.Errorf("ask pd: %w", err)
	}
	if !boot.GetBootstrapped() {
		if !s.recovering {
			return nil
		}
		if err := s.bootstrapPD(ctx); err != nil {
			return err
		}
	}
	return s.putStore(ctx)
}

func (s *Store) bootstrapPD(ctx context.Context) error {
	region, err := s.firstRegion(ctx, []*Store{s})
	if err != nil {
		return err
	}
	resp, err := s.pd.Bootstrap(ctx, &pdpb.BootstrapRequest{Header: s.header(), Store: s.meta(), Region: region})
	if resp.GetHeader().GetError().GetType() == pdpb.ErrorType_ALREADY_BOOTSTRAPPED {
		return nil // another store was first
	}
	if err := pdError(resp.GetHeader(), err); err != nil {
		return fmt.Errorf("bootstrap pd: %w", err)
	}
	return nil
}

// firstRegion is a region over the whole key space with a peer on each store.
func (s *Store) firstRegion(ctx context.Context, stores []*Store) (*metapb.Region, error) {
	id, err := s.allocID(ctx)
	if err != nil {
		return nil, err
	}
	region := &metapb.Region{Id: id, RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: 1}}
	for _, member := range stores {
		id, err := s.allocID(ctx)
		if err != nil {
			return nil, err
		}
		region.Peers = append(region.Peers, &metapb.Peer{Id: id, StoreId: member.id})
	}
	region.RegionEpoch.ConfVer = uint64(2*len(stores) - 1) // as if the peers had been added one by one
	return region, nil
}

// meta is the store as PD knows it.
func (s *Store) meta() *metapb.Store {
	version := s.cfg.Version
	if version == "" {
		version = "8.5.8"
	}
	return &metapb.Store{
		Id: s.id, Address: s.Addr(), PeerAddress: s.Addr(), StatusAddress: s.Addr(), Version: version,
		Labels: s.cfg.Labels, StartTimestamp: s.startedAt.Unix(), DeployPath: "/",
	}
}

func (s *Store) putStore(ctx context.Context) error {
	resp, err := s.pd.PutStore(ctx, &pdpb.PutStoreRequest{Header: s.header(), Store: s.meta()})
	if err := pdError(resp.GetHeader(), err); err != nil {
		return fmt.Errorf("put store: %w", err)
	}
	return nil
}

// BootstrapCluster makes a new cluster of stores that were started with empty devices and one PD: it
// bootstraps PD, registers the stores, and makes the first region with a peer on each of the first three. It
// returns when that region has a leader that serves.
func BootstrapCluster(ctx context.Context, stores ...*Store) error {
	if len(stores) == 0 {
		return errors.New("bootstrap cluster: no stores")
	}
	first := stores[0]
	members := stores[:min(3, len(stores))]
	region, err := first.firstRegion(ctx, members)
	if err != nil {
		return fmt.Errorf("bootstrap cluster: %w", err)
	}
	resp, err := first.pd.Bootstrap(ctx, &pdpb.BootstrapRequest{Header: first.header(), Store: first.meta(), Region: region})
	if err := pdError(resp.GetHeader(), err); err != nil {
		return fmt.Errorf("bootstrap cluster: %w", err)
	}
	for _, s := range stores {
		if err := s.putStore(ctx); err != nil {
			return fmt.Errorf("bootstrap cluster: store %d: %w", s.id, err)
		}
	}
	for i, s := range slices.Backward(members) {
		state := localState{region: region}
		s.data.apply(region.Id, initialIndex, initialTerm, []localState{state}, nil)
		if err := s.data.flush(s.opts.CheckpointBytes); err != nil {
			return fmt.Errorf("bootstrap cluster: store %d: %w", s.id, err)
		}
		s.addPeer(state, initialIndex, initialTerm, 0, i == 0)
	}
	return AwaitLeaders(ctx, stores...)
}
