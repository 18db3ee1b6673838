package tikvtest

import (
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest/mvcc"
)

// Replica is a store's own data of a region, whoever leads it.
type Replica struct {
	Region  uint64
	Applied uint64
	Sum     [sha256.Size]byte // of all versions, values and locks
}

// Replicas sums up the store's own data, by region id: what a client reads comes from the leaders alone, and shows nothing
// about the others. Each is of one instant. Witnesses, which have no data, are left out.
func (s *Store) Replicas() []Replica {
	e := s.data
	e.mu.RLock()
	defer e.mu.RUnlock()
	var list []Replica
	for _, id := range slices.Sorted(maps.Keys(e.regions)) {
		p := e.regions[id]
		if own := peerOn(p.region, s.id); own == nil || own.IsWitness {
			continue
		}
		list = append(list, Replica{Region: id, Applied: p.applied, Sum: sum(e.within(boundsOf(p.region), false))})
	}
	return list
}

func sum(muts []mvcc.Mutation) (out [sha256.Size]byte) {
	h := sha256.New()
	var b []byte
	for _, m := range muts {
		b = binary.AppendUvarint(b[:0], uint64(m.CF))
		b = appendBytes(appendBytes(b, m.Key), m.Value)
		_, _ = h.Write(b) // a hash takes all
	}
	h.Sum(out[:0])
	return out
}

// Diverge puts a version into the store's own data of the region that is in no log, as an entry that was applied early and
// never persisted leaves one.
func (s *Store) Diverge(region uint64) {
	p := s.peer(region)
	if p == nil {
		return
	}
	v := p.look()
	key := append(slices.Clone(v.region.StartKey), 0)
	s.data.apply(region, v.applied, v.appliedTerm, nil, []mvcc.Mutation{{CF: mvcc.CFDefault, Key: key, Value: []byte("ahead")}})
}
