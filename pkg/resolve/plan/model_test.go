package plan_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// drawMetas is a key space cut at random, with peers that lag, regions that a newer one covers, and now and
// then a fault: a lost store, a missing region, ranges that do not fit.
func drawMetas(t *rapid.T) peers {
	stores := rapid.IntRange(1, 6).Draw(t, "stores")
	metas := peers{}
	for s := range stores {
		metas[cluster.StoreID(s+1)] = nil
	}
	cuts := rapid.SliceOfNDistinct(rapid.IntRange(1, 20), 0, 6, rapid.ID[int]).Draw(t, "cuts")
	slices.Sort(cuts)
	id := cluster.RegionID(0)
	place := func(start, end int, version uint64) {
		id++
		m := tikv.RegionMeta{Region: id, PeerID: cluster.PeerID(100 + id), Keys: cluster.KeyRange{Start: key(start), End: key(end)}}
		on := rapid.Permutation(slices.Sorted(maps.Keys(metas))).Draw(t, "on")
		replicas := rapid.SampledFrom([]int{1, 2, 3, 3, 3, 3, 3}).Draw(t, "peers")
		for _, store := range on[:min(replicas, len(on))] {
			m.LastLogTerm, m.LastIndex, m.CommitIndex = 5, 10, 0
			if rapid.IntRange(0, 2).Draw(t, "lags") == 0 {
				m.LastLogTerm = rapid.Uint64Range(4, 5).Draw(t, "term")
				m.LastIndex = rapid.Uint64Range(9, 11).Draw(t, "index")
				m.CommitIndex = rapid.Uint64Range(0, 1).Draw(t, "commit")
			}
			m.Version, m.PeerID, m.Keys.End = version, cluster.PeerID(100+id), key(end)
			if rapid.IntRange(0, 9).Draw(t, "uneven") == 0 {
				m.Version--
				if rapid.Bool().Draw(t, "wider") {
					m.Keys.End = nil
				}
				m.PeerID -= cluster.PeerID(rapid.IntRange(0, 1).Draw(t, "older view"))
			}
			m.Tombstone = rapid.IntRange(0, 30).Draw(t, "tombstone") == 0
			metas[store] = append(metas[store], m)
		}
	}
	bounds := append(append([]int{0}, cuts...), 0)
	for i := range len(bounds) - 1 {
		if rapid.IntRange(0, 40).Draw(t, "hole") > 0 {
			place(bounds[i], bounds[i+1], rapid.Uint64Range(5, 7).Draw(t, "version"))
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "stale") {
		start, end := rapid.IntRange(0, 20).Draw(t, "start"), rapid.IntRange(0, 21).Draw(t, "end")
		if end == 0 || start < end {
			place(start, end, rapid.Uint64Range(2, 8).Draw(t, "stale version"))
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "lost store") == 0 {
		delete(metas, 1)
	}
	return metas
}

// key is a key; 0 is the open end.
func key(i int) cluster.EncodedKey {
	if i == 0 {
		return nil
	}
	return fmt.Appendf(nil, "%03d", i)
}

// choice is what the model allows for one region.
type choice struct {
	best, newest tikv.RegionMeta
	stores       []cluster.StoreID
	replicas     int
}

// model is the slow and plain way: choose, drop what any newer one overlaps, count replicas, check every key.
func model(p peers, replicas int) (map[cluster.RegionID]choice, error) {
	chosen := map[cluster.RegionID]choice{}
	var tombstones []tikv.RegionMeta
	for _, store := range slices.Sorted(maps.Keys(p)) {
		for _, m := range p[store] {
			if m.Tombstone {
				tombstones = append(tombstones, m)
				continue
			}
			c, known := chosen[m.Region]
			c.replicas++
			if !known || m.Version > c.newest.Version {
				c.newest = m
			}
			switch order := compareLogs(m, c.best); {
			case !known || order > 0:
				c.best, c.stores = m, []cluster.StoreID{store}
			case order == 0:
				c.stores = append(c.stores, store)
			}
			chosen[m.Region] = c
		}
	}
	for _, list := range p {
		for _, m := range list {
			if newest := chosen[m.Region].newest; !m.Tombstone && m.Version == newest.Version && !sameRange(m, newest) {
				return nil, fmt.Errorf("region %s has two ranges", m.Region)
			}
		}
	}
	kept := maps.Clone(chosen)
	for id, old := range chosen {
		for _, other := range chosen {
			if other.newest.Version > old.newest.Version && overlap(other.newest, old.newest) {
				delete(kept, id)
			}
		}
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("nothing")
	}
	for id, c := range kept {
		if c.replicas+coming(p, c) < replicas/2+1 {
			return nil, fmt.Errorf("region %s has no quorum", id)
		}
	}
	for _, m := range tombstones {
		c, alive := kept[m.Region]
		if alive && cmp.Or(cmp.Compare(m.LastLogTerm, c.best.LastLogTerm), cmp.Compare(m.LastIndex, c.best.LastIndex)) > 0 {
			return nil, fmt.Errorf("a tombstone of region %s knows more", m.Region)
		}
	}
	return kept, coveredOnce(kept)
}

// coming counts the stores that have yet to apply the split that made the region.
func coming(p peers, c choice) int {
	n := 0
	for _, list := range p {
		holds, behind := false, false
		for _, m := range list {
			holds = holds || m.Region == c.best.Region && !m.Tombstone
			behind = behind || !m.Tombstone && m.Version < c.newest.Version && overlap(m, c.newest)
		}
		if behind && !holds {
			n++
		}
	}
	return n
}

// coveredOnce checks each key that is drawn, and at one between it and the next.
func coveredOnce(kept map[cluster.RegionID]choice) error {
	for at := range 2 * 23 {
		k := fmt.Appendf(nil, "%03d", at/2)
		if at%2 == 1 {
			k = append(k, '+')
		}
		n := 0
		for _, c := range kept {
			if c.newest.Keys.Contains(k) {
				n++
			}
		}
		if n != 1 {
			return fmt.Errorf("key %s is in %d regions", k, n)
		}
	}
	return nil
}

func overlap(a, b tikv.RegionMeta) bool {
	return (len(a.Keys.End) == 0 || bytes.Compare(b.Keys.Start, a.Keys.End) < 0) && (len(b.Keys.End) == 0 || bytes.Compare(a.Keys.Start, b.Keys.End) < 0)
}

func sameRange(a, b tikv.RegionMeta) bool {
	return bytes.Equal(a.Keys.Start, b.Keys.Start) && bytes.Equal(a.Keys.End, b.Keys.End)
}

func compareLogs(a, b tikv.RegionMeta) int {
	return cmp.Or(cmp.Compare(a.LastLogTerm, b.LastLogTerm), cmp.Compare(a.LastIndex, b.LastIndex),
		cmp.Compare(a.CommitIndex, b.CommitIndex), cmp.Compare(a.Version, b.Version))
}

// minMax is the smallest possible number of regions that the busiest store leads, by trying all.
func minMax(choices []choice) int {
	best := math.MaxInt
	load := map[cluster.StoreID]int{}
	var try func(i, busiest int)
	try = func(i, busiest int) {
		if busiest >= best {
			return
		}
		if i == len(choices) {
			best = busiest
			return
		}
		for _, s := range choices[i].stores {
			load[s]++
			try(i+1, max(busiest, load[s]))
			load[s]--
		}
	}
	try(0, 0)
	return best
}

func TestMakePlan_AnyMetas_AgreesWithModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		metas := drawMetas(t)
		replicas := rapid.SampledFrom([]int{1, 3}).Draw(t, "replicas")
		want, wantErr := model(metas, replicas)
		plan, err := makePlan(t, metas, replicas)
		if wantErr != nil {
			require.Error(t, err, "the model's error: %v", wantErr)
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			return
		}
		require.NoError(t, err)
		require.Len(t, plan.Leaders, len(want))
		var end []byte
		for i, l := range plan.Leaders {
			require.Equal(t, string(end), string(l.Keys.Start), "leader %d", i)
			require.True(t, i == 0 || len(end) > 0, "there is nothing behind the end")
			end = l.Keys.End
			c := want[l.Region]
			require.Contains(t, c.stores, l.Store, "region %s", l.Region)
			require.Equal(t, [3]uint64{c.newest.Version, c.best.LastLogTerm, c.best.LastIndex}, [3]uint64{l.Version, l.Term, l.Index})
			require.Equal(t, c.replicas, l.Replicas)
			require.Contains(t, plan.Commands[l.Store], tikv.Command{Region: l.Region, AsLeader: true})
		}
		require.Empty(t, end)
		sum := 0
		for _, commands := range plan.Commands {
			sum += len(commands)
		}
		require.Len(t, plan.Leaders, sum, "each region is led once")
		_, high := spread(plan)
		require.Equal(t, minMax(slices.Collect(maps.Values(want))), high)
		repeated, err := makePlan(t, maps.Clone(metas), replicas)
		require.NoError(t, err)
		require.Equal(t, plan, repeated)
	})
}

// FuzzMakePlan feeds ranges and logs of any bytes: a plan that is made covers the key space exactly once.
func FuzzMakePlan(f *testing.F) {
	f.Add([]byte("a"), []byte("b"), uint64(1), uint64(2))
	f.Add([]byte(""), []byte(""), uint64(1), uint64(1))
	f.Fuzz(func(t *testing.T, start, end []byte, v1, v2 uint64) {
		a := tikv.RegionMeta{Region: 1, Keys: cluster.KeyRange{End: start}, Version: v1}
		b := tikv.RegionMeta{Region: 2, Keys: cluster.KeyRange{Start: start, End: end}, Version: v2}
		c := tikv.RegionMeta{Region: 3, Keys: cluster.KeyRange{Start: end}, Version: v1}
		plan, err := makePlan(t, onAll(a, b, c), 3)
		if err != nil {
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			return
		}
		var ranges []cluster.KeyRange
		for _, l := range plan.Leaders {
			ranges = append(ranges, l.Keys)
		}
		require.NoError(t, cluster.Tile(ranges, 5))
	})
}
