package pdtest

import (
	"bytes"
	"fmt"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/tidwall/btree"
)

// region is what PD knows of a region: the last heartbeat accepted. Its messages are never changed in place.
type region struct {
	meta    *metapb.Region
	leader  *metapb.Peer // nil: none known
	term    uint64
	down    []*pdpb.PeerStats
	pending []*metapb.Peer
	sizeMiB uint64
	keys    uint64
}

// regionTree keeps regions that do not overlap, by start key.
type regionTree struct {
	byStart *btree.BTreeG[*region]
	byID    map[uint64]*region
	leaders map[uint64]int // by store
	peers   map[uint64]int // by store
	led     int            // regions with a leader: reported since PD started
}

func newRegionTree() *regionTree {
	less := func(a, b *region) bool { return bytes.Compare(a.meta.GetStartKey(), b.meta.GetStartKey()) < 0 }
	return &regionTree{
		byStart: btree.NewBTreeGOptions(less, btree.Options{NoLocks: true}),
		byID:    map[uint64]*region{},
		leaders: map[uint64]int{},
		peers:   map[uint64]int{},
	}
}

// put takes a region over and removes those older ones that it overlaps. One with an older epoch than the
// same region's, or an older version than an overlapped one's, is refused.
func (t *regionTree) put(r *region) error {
	epoch := r.meta.GetRegionEpoch()
	old := t.byID[r.meta.GetId()]
	if old != nil {
		was := old.meta.GetRegionEpoch()
		if epoch.GetVersion() < was.GetVersion() || epoch.GetConfVer() < was.GetConfVer() || r.term > 0 && r.term < old.term {
			return fmt.Errorf("region is stale: region %v, origin %v", r.meta, old.meta)
		}
	}
	overlaps := t.scan(r.meta.GetStartKey(), r.meta.GetEndKey(), 0)
	for _, o := range overlaps {
		if o != old && epoch.GetVersion() < o.meta.GetRegionEpoch().GetVersion() {
			return fmt.Errorf("region is stale: region %v, origin %v", r.meta, o.meta)
		}
	}
	if old != nil {
		t.remove(old)
	}
	for _, o := range overlaps {
		t.remove(o)
	}
	t.byStart.Set(r)
	t.byID[r.meta.GetId()] = r
	t.count(r, 1)
	return nil
}

func (t *regionTree) remove(r *region) {
	if t.byID[r.meta.GetId()] == r {
		delete(t.byID, r.meta.GetId())
		t.byStart.Delete(r)
		t.count(r, -1)
	}
}

// count keeps the stores' numbers: to count again at each heartbeat would be quadratic.
func (t *regionTree) count(r *region, by int) {
	if r.leader != nil {
		t.leaders[r.leader.GetStoreId()] += by
		t.led += by
	}
	for _, p := range r.meta.GetPeers() {
		t.peers[p.GetStoreId()] += by
	}
}

// at is the region that holds the key, or nil.
func (t *regionTree) at(key []byte) *region {
	var found *region
	t.byStart.Descend(&region{meta: &metapb.Region{StartKey: key}}, func(r *region) bool {
		found = r
		return false
	})
	if found == nil || !before(key, found.meta.GetEndKey()) {
		return nil
	}
	return found
}

// previous is the region before the one that holds the key, or nil.
func (t *regionTree) previous(key []byte) *region {
	cur := t.at(key)
	if cur == nil || len(cur.meta.GetStartKey()) == 0 {
		return nil
	}
	var found *region
	t.byStart.Descend(cur, func(r *region) bool {
		if r == cur {
			return true
		}
		found = r
		return false
	})
	if found == nil || !bytes.Equal(found.meta.GetEndKey(), cur.meta.GetStartKey()) {
		return nil
	}
	return found
}

// scan lists the regions that intersect [start, end) in key order, at most limit if it is positive.
func (t *regionTree) scan(start, end []byte, limit int) []*region {
	pivot := &region{meta: &metapb.Region{StartKey: start}}
	if r := t.at(start); r != nil {
		pivot = r
	}
	var found []*region
	t.byStart.Ascend(pivot, func(r *region) bool {
		if len(end) > 0 && bytes.Compare(r.meta.GetStartKey(), end) >= 0 || limit > 0 && len(found) >= limit {
			return false
		}
		found = append(found, r)
		return true
	})
	return found
}

func (t *regionTree) forgetLeaders() {
	for _, r := range t.scan(nil, nil, 0) {
		c := *r
		c.leader, c.term, c.down, c.pending = nil, 0, nil, nil
		t.byStart.Set(&c)
		t.byID[c.meta.GetId()] = &c
	}
	t.led = 0
	clear(t.leaders)
}

// before reports whether key < end, where an empty end is the end of the key space.
func before(key, end []byte) bool { return len(end) == 0 || bytes.Compare(key, end) < 0 }

func (r *region) message() *pdpb.Region {
	leader := r.leader
	if leader == nil {
		// PD sends an empty peer, not none, for a region without a leader.
		leader = &metapb.Peer{}
	}
	return &pdpb.Region{Region: r.meta, Leader: leader, DownPeers: r.down, PendingPeers: r.pending}
}

// cloneRegion keeps PD's copy apart from what a caller in process continues to change.
func cloneRegion(r *metapb.Region) *metapb.Region {
	c := &metapb.Region{
		Id: r.GetId(), StartKey: bytes.Clone(r.GetStartKey()), EndKey: bytes.Clone(r.GetEndKey()),
		IsInFlashback: r.GetIsInFlashback(), FlashbackStartTs: r.GetFlashbackStartTs(),
	}
	if e := r.GetRegionEpoch(); e != nil {
		c.RegionEpoch = &metapb.RegionEpoch{ConfVer: e.GetConfVer(), Version: e.GetVersion()}
	}
	for _, p := range r.GetPeers() {
		peer := *p
		c.Peers = append(c.Peers, &peer)
	}
	return c
}
