package resolve

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// seat is the leadership of one region and the stores that may have it. Stores are indexes into the plan's.
type seat struct {
	region      uint64
	version     uint64 // the newest that a peer has applied, and its range
	start, end  keyID
	term, index uint64 // of the best log
	peer        uint64 // the largest peer id that a peer knows of
	may         uint32 // where the equally good stores begin in election.may
	ties        uint16 // how many there are; 1 if there is no choice
	replicas    uint16 // stores that reported the region
	current     uint16 // those of them that know the largest peer id: none of the others saw the last peer come
	store       uint16
}

// better orders peers by last log term, then last index, then commit index: negative if a is the better one.
func better(a, b *peerRow) int {
	return cmp.Or(cmp.Compare(b.term, a.term), cmp.Compare(b.index, a.index), cmp.Compare(b.commit, a.commit))
}

// election is the best peers of the regions, in the order of region ids.
type election struct {
	seats []seat
	may   []uint16 // of all seats that have a choice

	peers    int
	lagging  int
	behind   uint64
	uneven   []cluster.RegionID
	doubtful []cluster.RegionID
	crowded  []cluster.RegionID

	stores []cluster.StoreID
	row    []*peerRow // of the region at hand, and the stores that hold them
	on     []uint16
}

// elect chooses the best peers of each region, on all processors: the region ids are cut into as many parts.
func elect(stores []cluster.StoreID, tables []*StoreMetas, replicas int) (*election, error) {
	if len(stores) > math.MaxUint16 {
		return nil, failure.New(failure.Corrupt, "plan recovery", "", "%d stores are more than a cluster has", len(stores))
	}
	cuts := partition(tables, runtime.GOMAXPROCS(0))
	parts := make([]*election, len(cuts)-1)
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i := range parts {
		parts[i] = &election{stores: stores}
		wg.Go(func() { errs[i] = parts[i].run(newQueue(tables, cuts[i], cuts[i+1], i == len(parts)-1), replicas) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return join(parts), nil
}

// partition cuts the region ids so that each part has about as many peers; the first cut is 0.
func partition(tables []*StoreMetas, n int) []uint64 {
	largest := slices.MaxFunc(tables, func(a, b *StoreMetas) int { return cmp.Compare(a.Len(), b.Len()) })
	cuts := []uint64{0}
	for i := 1; i < n && largest.Len() >= rowBlock; i++ {
		cuts = append(cuts, largest.at(largest.Len()*i/n).region)
	}
	return append(cuts, math.MaxUint64)
}

// join puts the parts behind each other.
func join(parts []*election) *election {
	all := parts[0]
	seats, may := 0, 0
	for _, p := range parts {
		seats, may = seats+len(p.seats), may+len(p.may)
	}
	all.seats, all.may = slices.Grow(all.seats, seats-len(all.seats)), slices.Grow(all.may, may-len(all.may))
	for _, p := range parts[1:] {
		base := uint32(len(all.may)) //nolint:gosec // fewer than the peers of 2^31 regions
		for i := range p.seats {
			p.seats[i].may += base
		}
		all.seats, all.may = append(all.seats, p.seats...), append(all.may, p.may...)
		all.behind = max(all.behind, p.behind)
		all.peers, all.lagging = all.peers+p.peers, all.lagging+p.lagging
		all.uneven, all.doubtful = append(all.uneven, p.uneven...), append(all.doubtful, p.doubtful...)
		all.crowded = append(all.crowded, p.crowded...)
	}
	return all
}

// run elects for the regions in line; replicas tells how many there may be.
func (e *election) run(line queue, replicas int) error {
	n := line.len()
	e.seats, e.may = make([]seat, 0, n/max(replicas, 1)+n/32), make([]uint16, 0, n)
	for len(line) > 0 {
		id := line[0].region
		e.row, e.on = e.row[:0], e.on[:0]
		for len(line) > 0 && line[0].region == id {
			if n := len(e.on); n > 0 && e.on[n-1] == line[0].store {
				return failure.New(failure.Corrupt, "plan recovery", "", "store %s reported region %d twice", e.stores[line[0].store], id)
			}
			e.row, e.on = append(e.row, line[0].peer()), append(e.on, line[0].store)
			line.advance()
		}
		if err := e.seat(); err != nil {
			return err
		}
		if len(e.row) > replicas {
			e.crowded = append(e.crowded, cluster.RegionID(id))
		}
	}
	return nil
}

// seat finds the peers that may lead the region at hand. Its range is that of the newest version: a peer that
// has applied a split or merge proves that it was committed, so that it is in the best log too. Of equal logs
// those may lead that have applied the newest version themselves.
func (e *election) seat() error {
	best, newest, peer := e.compare()
	s := seat{
		region: best.region, version: newest.version, start: newest.start, end: newest.end, term: best.term, index: best.index,
		peer: peer, replicas: uint16(len(e.row)), may: uint32(len(e.may)), //nolint:gosec // no more than stores and peers
	}
	doubtful, uneven := false, false
	for i, m := range e.row {
		if m.peer == peer {
			s.current++
		}
		uneven = uneven || m.version != newest.version
		if m.version == newest.version && (m.start != newest.start || m.end != newest.end) {
			return failure.New(failure.Corrupt, "plan recovery", "", "region %d has two ranges of version %d on stores %v", m.region, m.version, e.names())
		}
		switch {
		case better(best, m) != 0:
			e.lagging++
			doubtful = doubtful || m.index > best.index
			e.behind = max(e.behind, best.index-min(best.index, m.index))
		case m.version == best.version:
			s.store = e.on[i]
			s.ties++
			e.may = append(e.may, e.on[i])
		}
	}
	if s.ties == 1 { // most have a choice
		e.may = e.may[:s.may]
	} else {
		s.store = e.may[s.may]
	}
	if uneven {
		e.uneven = append(e.uneven, cluster.RegionID(s.region))
	}
	if doubtful {
		e.doubtful = append(e.doubtful, cluster.RegionID(s.region))
	}
	e.peers += len(e.row)
	e.seats = append(e.seats, s)
	return nil
}

// compare finds the best log of the region at hand, the newest version and the largest peer id.
func (e *election) compare() (best, newest *peerRow, peer uint64) {
	best, newest = e.row[0], e.row[0]
	for _, m := range e.row {
		if m.version > newest.version {
			newest = m
		}
		if cmp.Or(better(m, best), cmp.Compare(best.version, m.version)) < 0 {
			best = m
		}
		peer = max(peer, m.peer)
	}
	return best, newest, peer
}

// names lists the stores that hold the region at hand.
func (e *election) names() []cluster.StoreID {
	var ids []cluster.StoreID
	for _, i := range e.on {
		ids = append(ids, e.stores[i])
	}
	return ids
}

// find is the number of a region's seat.
func (e *election) find(region uint64) (int, bool) {
	return slices.BinarySearchFunc(e.seats, region, func(s seat, id uint64) int { return cmp.Compare(s.region, id) })
}
