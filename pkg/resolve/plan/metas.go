package plan

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// Metas is what every store reported about its peers, in a compact form: a peer takes 56 bytes, and a key is held
// once however many peers have it. Different stores may be filled at the same time.
type Metas struct {
	keys *keyTable

	mu     sync.Mutex
	stores map[cluster.StoreID]*StoreMetas
}

// NewMetas makes metas of no store.
func NewMetas() *Metas {
	return &Metas{keys: newKeyTable(), stores: map[cluster.StoreID]*StoreMetas{}}
}

// Begin returns an empty table for the store, which takes the place of what it reported before: a store that was
// cut off while it reported its peers is asked from the start.
func (m *Metas) Begin(store cluster.StoreID) *StoreMetas {
	s := &StoreMetas{keys: m.keys}
	m.mu.Lock()
	m.stores[store] = s
	m.mu.Unlock()
	return s
}

// Without is the metas of all other stores. The tables are shared, not copied.
func (m *Metas) Without(stores []cluster.StoreID) *Metas {
	m.mu.Lock()
	defer m.mu.Unlock()
	left := maps.Clone(m.stores)
	for _, id := range stores {
		delete(left, id)
	}
	return &Metas{keys: m.keys, stores: left}
}

// ids lists the stores in order.
func (m *Metas) ids() []cluster.StoreID {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := make([]cluster.StoreID, 0, len(m.stores))
	for id := range m.stores {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// rowBlock is how many peers are allocated at a time: a slice that grows would be copied, and take twice the
// memory while it is.
const rowBlock = 4096

// peerRow is one peer.
type peerRow struct {
	region, peer, term, index, commit, version uint64
	start, end                                 keyID
}

// StoreMetas is what one store reported. It is not safe for concurrent use.
type StoreMetas struct {
	keys       *keyTable
	blocks     [][]peerRow // all but the last are full
	unsorted   bool
	tombstones []peerRow
	largest    uint64 // of the region and peer ids
}

// Add notes one peer. The keys are copied. A peer of version 0 has no data yet: it waits for its first snapshot
// and does not know its range, so that of it only the ids count.
func (s *StoreMetas) Add(m *tikv.RegionMeta) error {
	s.largest = max(s.largest, uint64(m.Region), uint64(m.PeerID))
	if m.Version == 0 && !m.Tombstone {
		return nil
	}
	start, okStart := s.keys.intern(m.Keys.Start)
	end, okEnd := s.keys.intern(m.Keys.End)
	if !okStart || !okEnd {
		return failure.New(failure.Limited, "read region metas", "", "there are more keys than can be numbered")
	}
	row := peerRow{
		region: uint64(m.Region), peer: uint64(m.PeerID), term: m.LastLogTerm, index: m.LastIndex,
		commit: m.CommitIndex, version: m.Version, start: start, end: end,
	}
	if m.Tombstone {
		s.tombstones = append(s.tombstones, row)
		return nil
	}
	last := len(s.blocks) - 1
	if last >= 0 {
		b := s.blocks[last]
		s.unsorted = s.unsorted || b[len(b)-1].region > row.region
		if len(b) < rowBlock {
			s.blocks[last] = append(b, row)
			return nil
		}
	}
	s.blocks = append(s.blocks, append(make([]peerRow, 0, rowBlock), row))
	return nil
}

// Len is the number of peers, tombstones left out.
func (s *StoreMetas) Len() int {
	if len(s.blocks) == 0 {
		return 0
	}
	return (len(s.blocks)-1)*rowBlock + len(s.blocks[len(s.blocks)-1])
}

// at is peer number i.
func (s *StoreMetas) at(i int) *peerRow { return &s.blocks[i/rowBlock][i%rowBlock] }

// inOrder is the peers by region id, as TiKV sends them.
func (s *StoreMetas) inOrder() *StoreMetas {
	if !s.unsorted {
		return s
	}
	rows := slices.Concat(s.blocks...)
	slices.SortStableFunc(rows, func(a, b peerRow) int { return cmp.Compare(a.region, b.region) })
	sorted := &StoreMetas{keys: s.keys, tombstones: s.tombstones, largest: s.largest}
	for chunk := range slices.Chunk(rows, rowBlock) {
		sorted.blocks = append(sorted.blocks, chunk)
	}
	return sorted
}

// from is the number of the first peer whose region is not below id. The peers must be in order.
func (s *StoreMetas) from(id uint64) int {
	low, high := 0, s.Len()
	for low < high {
		mid := (low + high) / 2
		if s.at(mid).region < id {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// find is the store's peer of a region, or nil. The peers must be in order.
func (s *StoreMetas) find(region uint64) *peerRow {
	if i := s.from(region); i < s.Len() && s.at(i).region == region {
		return s.at(i)
	}
	return nil
}

// Len is the number of peers on all stores.
func (m *Metas) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, s := range m.stores {
		n += s.Len()
	}
	return n
}

// Peers lists the regions that each store has a peer of.
func (m *Metas) Peers() map[cluster.StoreID][]cluster.RegionID {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[cluster.StoreID][]cluster.RegionID, len(m.stores))
	for id, s := range m.stores {
		regions := make([]cluster.RegionID, s.Len())
		for i := range regions {
			regions[i] = cluster.RegionID(s.at(i).region)
		}
		out[id] = regions
	}
	return out
}
