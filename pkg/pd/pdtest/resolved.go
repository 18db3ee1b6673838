package pdtest

import (
	"math"

	"github.com/pingcap/kvproto/pkg/metapb"
)

// minResolvedLocked is the cluster's minimum: of the TiKV stores that lead something and are no tombstones.
// It never falls, and outlives a restart while the stores' own values do not.
func (s *Server) minResolvedLocked() uint64 {
	if s.durationConfigLocked("pd-server.min-resolved-ts-persistence-interval") == 0 {
		return s.disk.minResolved
	}
	lowest := uint64(math.MaxUint64)
	for id, store := range s.disk.stores {
		if s.countsForResolvedLocked(store) {
			lowest = min(lowest, s.mem.storeStats(id).resolved)
		}
	}
	if lowest != math.MaxUint64 && lowest > s.disk.minResolved {
		s.disk.minResolved = lowest
	}
	return s.disk.minResolved
}

// storeResolvedLocked is a store's own value; MaxUint64 for one that does not count or does not exist.
func (s *Server) storeResolvedLocked(id uint64) uint64 {
	store := s.disk.stores[id]
	if store == nil || !s.countsForResolvedLocked(store) {
		return math.MaxUint64
	}
	return s.mem.storeStats(id).resolved
}

func (s *Server) countsForResolvedLocked(store *metapb.Store) bool {
	return store.GetState() != metapb.StoreState_Tombstone && isTiKV(store) && s.disk.regions.leaders[store.GetId()] > 0
}
