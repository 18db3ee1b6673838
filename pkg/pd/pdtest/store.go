package pdtest

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
)

// disconnectedAfter is how long PD calls a silent store Up.
const disconnectedAfter = 20 * time.Second

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// Bootstrap makes the cluster of its first store and region; the second time the header reports that.
func (s *Server) Bootstrap(_ context.Context, req *pdpb.BootstrapRequest) (*pdpb.BootstrapResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if s.disk.bootstrapped {
		return &pdpb.BootstrapResponse{Header: s.header(pdpb.ErrorType_ALREADY_BOOTSTRAPPED, "cluster is already bootstrapped")}, nil
	}
	if req.GetStore().GetId() == 0 || req.GetRegion().GetId() == 0 || len(req.GetRegion().GetPeers()) == 0 {
		return &pdpb.BootstrapResponse{Header: s.header(pdpb.ErrorType_UNKNOWN, "invalid bootstrap request")}, nil
	}
	if err := s.disk.regions.put(&region{meta: cloneRegion(req.GetRegion()), sizeMiB: 1}); err != nil {
		return &pdpb.BootstrapResponse{Header: s.header(pdpb.ErrorType_UNKNOWN, err.Error())}, nil
	}
	s.disk.bootstrapped = true
	s.disk.stores[req.GetStore().GetId()] = req.GetStore()
	return &pdpb.BootstrapResponse{Header: s.ok()}, nil
}

// IsBootstrapped reports whether Bootstrap was done.
func (s *Server) IsBootstrapped(context.Context, *pdpb.IsBootstrappedRequest) (*pdpb.IsBootstrappedResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return &pdpb.IsBootstrappedResponse{Header: s.ok(), Bootstrapped: s.disk.bootstrapped}, nil
}

// PutStore adds a store or takes over its new address, labels and version. Two stores with one address are
// refused unless the other is a tombstone.
func (s *Server) PutStore(_ context.Context, req *pdpb.PutStoreRequest) (*pdpb.PutStoreResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if !s.disk.bootstrapped {
		return &pdpb.PutStoreResponse{Header: s.notBootstrapped()}, nil
	}
	store := req.GetStore()
	refuse := func(kind pdpb.ErrorType, message string) (*pdpb.PutStoreResponse, error) {
		return &pdpb.PutStoreResponse{Header: s.header(kind, message)}, nil
	}
	if store.GetId() == 0 {
		return refuse(pdpb.ErrorType_UNKNOWN, "invalid put store")
	}
	for id, other := range s.disk.stores {
		if id != store.GetId() && other.GetAddress() == store.GetAddress() && other.GetState() != metapb.StoreState_Tombstone {
			return refuse(pdpb.ErrorType_UNKNOWN, "duplicated store address: "+store.String()+", already registered by "+other.String())
		}
	}
	put := *store
	if old := s.disk.stores[store.GetId()]; old != nil {
		if old.GetState() == metapb.StoreState_Tombstone {
			return refuse(pdpb.ErrorType_STORE_TOMBSTONE, "store is tombstone")
		}
		put.State, put.LastHeartbeat, put.NodeState = old.GetState(), old.GetLastHeartbeat(), old.GetNodeState()
	}
	s.disk.stores[store.GetId()] = &put
	return &pdpb.PutStoreResponse{Header: s.ok()}, nil
}

// GetStore returns one store.
func (s *Server) GetStore(_ context.Context, req *pdpb.GetStoreRequest) (*pdpb.GetStoreResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if !s.disk.bootstrapped {
		return &pdpb.GetStoreResponse{Header: s.notBootstrapped()}, nil
	}
	store := s.disk.stores[req.GetStoreId()]
	if store == nil {
		return &pdpb.GetStoreResponse{Header: s.header(pdpb.ErrorType_UNKNOWN, "invalid store ID "+decimal(req.GetStoreId())+", not found")}, nil
	}
	return &pdpb.GetStoreResponse{Header: s.ok(), Store: store, Stats: s.mem.storeStats(req.GetStoreId()).stats}, nil
}

// GetAllStores returns all stores by id.
func (s *Server) GetAllStores(_ context.Context, req *pdpb.GetAllStoresRequest) (*pdpb.GetAllStoresResponse, error) {
	if err := s.lock(); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if !s.disk.bootstrapped {
		return &pdpb.GetAllStoresResponse{Header: s.notBootstrapped()}, nil
	}
	answer := &pdpb.GetAllStoresResponse{Header: s.ok()}
	for _, store := range s.storesLocked() {
		if !req.GetExcludeTombstoneStores() || store.GetState() != metapb.StoreState_Tombstone {
			answer.Stores = append(answer.Stores, store)
		}
	}
	return answer, nil
}

func (s *Server) storesLocked() []*metapb.Store {
	stores := make([]*metapb.Store, 0, len(s.disk.stores))
	for _, store := range s.disk.stores {
		stores = append(stores, store)
	}
	slices.SortFunc(stores, func(a, b *metapb.Store) int { return int(a.GetId()) - int(b.GetId()) })
	return stores
}

// stateName is the state as HTTP shows it; gRPC knows neither Disconnected nor Down.
func (s *Server) stateName(store *metapb.Store) string {
	if store.GetState() != metapb.StoreState_Up {
		return store.GetState().String()
	}
	silent := s.now().Sub(time.Unix(0, store.GetLastHeartbeat()))
	switch {
	case silent > s.durationConfigLocked("schedule.max-store-down-time"):
		return "Down"
	case silent > disconnectedAfter:
		return "Disconnected"
	}
	return "Up"
}

// SetStoreState makes a store Up, Offline or Tombstone; an unknown one is left alone.
func (s *Server) SetStoreState(id uint64, state metapb.StoreState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.disk.stores[id]; old != nil {
		c := *old
		c.State = state
		s.disk.stores[id] = &c
	}
}

func isTiKV(store *metapb.Store) bool {
	for _, l := range store.GetLabels() {
		if l.GetKey() == "engine" && l.GetValue() != "tikv" {
			return false
		}
	}
	return true
}
