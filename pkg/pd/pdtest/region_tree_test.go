package pdtest

import (
	"bytes"
	"testing"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRegionTree_AnyReports_NeverOverlapsAndCountsRight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tree := newRegionTree()
		for range rapid.IntRange(1, 40).Draw(t, "reports") {
			from := rapid.IntRange(0, 9).Draw(t, "from")
			to := rapid.IntRange(from+1, 10).Draw(t, "to")
			r := &region{meta: &metapb.Region{
				Id:          rapid.Uint64Range(1, 8).Draw(t, "id"),
				StartKey:    []byte{byte('a' + from)},
				EndKey:      []byte{byte('a' + to)},
				RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: rapid.Uint64Range(1, 6).Draw(t, "version")},
				Peers:       []*metapb.Peer{{Id: 1, StoreId: rapid.Uint64Range(1, 3).Draw(t, "store")}},
			}}
			if rapid.Bool().Draw(t, "led") {
				r.leader = r.meta.Peers[0]
			}
			if tree.put(r) == nil {
				require.Same(t, r, tree.at(r.meta.StartKey))
			}
		}
		leaders, peers, led := map[uint64]int{}, map[uint64]int{}, 0
		var last *region
		all := tree.scan(nil, nil, 0)
		require.Len(t, all, len(tree.byID))
		for _, r := range all {
			if last != nil {
				require.LessOrEqual(t, bytes.Compare(last.meta.EndKey, r.meta.StartKey), 0, "overlap")
			}
			last = r
			require.Same(t, r, tree.byID[r.meta.Id])
			peers[r.meta.Peers[0].StoreId]++
			if r.leader != nil {
				led++
				leaders[r.leader.StoreId]++
			}
		}
		require.Equal(t, led, tree.led)
		for store := uint64(1); store <= 3; store++ {
			require.Equal(t, leaders[store], tree.leaders[store])
			require.Equal(t, peers[store], tree.peers[store])
		}
	})
}
