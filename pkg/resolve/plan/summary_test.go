package plan_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/tikv"
)

func TestMakePlan_LostStore_OnlyPeersOfTheNewestViewCount(t *testing.T) {
	t.Parallel()
	view := func(id cluster.PeerID) func(*tikv.RegionMeta) { return func(m *tikv.RegionMeta) { m.PeerID = id } }
	metas := peers{1: {peer(1, "", "", view(2000))}, 2: {peer(1, "", "", view(1999))}, 4: nil}
	_, err := makePlan(t, metas, 3)
	require.NoError(t, err, "all stores have reported")
	_, err = makePlan(t, metas, 3, 3)
	require.Equal(t, failure.Corrupt, failure.KindOf(err))
	require.ErrorContains(t, err, "1 regions are on fewer than 2 of 3 replicas without store 3, so committed writes may be lost: region 1 on 1 store(s)")
	metas[4] = []tikv.RegionMeta{peer(1, "", "", view(2000))}
	plan, err := makePlan(t, metas, 3, 3)
	require.NoError(t, err)
	require.Equal(t, 2, plan.Fewest)
}

func TestPlan_Summary_IsWhatADryRunShows(t *testing.T) {
	t.Parallel()
	plan, err := makePlan(t, peers{
		1: {peer(1, "", "b", version(4)), peer(3, "b", "", version(4), logs(5, 7, 0))},
		2: {peer(1, "", "b", version(4)), peer(3, "b", "", version(4)), peer(9, "x", "y", tombstone)},
		4: {peer(1, "", "a", version(2), logs(4, 12, 0)), peer(2, "a", "", version(2))},
	}, 3)
	require.NoError(t, err)
	body, err := json.Marshal(plan.Summary())
	require.NoError(t, err)
	require.JSONEq(t, `{
		"regions": 2, "peers": 6, "imbalancePercent": 100, "allocID": 1009,
		"stores": [{"store": 1, "leaders": 1}, {"store": 2, "leaders": 1}, {"store": 4, "leaders": 0}],
		"laggingPeers": 2, "longestLagEntries": 3,
		"overlaps": {"count": 1, "first": ["region 2 [61, +inf) of version 2 is older than region 1 of version 4"]},
		"tombstones": {"count": 1, "first": ["region 9 [78, 79) on store 2"]},
		"uneven": {"count": 1, "first": [1]}, "doubtful": {"count": 1, "first": [1]}, "crowded": {"count": 0},
		"degraded": {"count": 1, "first": [3]}, "fewestReplicas": 2,
		"lost": ["the peers of 1 older regions, whose keys newer regions hold: they get no leader"]
	}`, string(body))
}

// Keys that are alike for long, or of which one begins with another, are ordered as bytes are.
func TestMakePlan_KeysOfAnyLength_AreOrderedAsBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 255}), 1, 24), func(b []byte) string { return string(b) })
		cuts := rapid.SliceOfNDistinct(key, 17, 60, rapid.ID[string]).Draw(t, "cuts")
		slices.Sort(cuts)
		bounds := append(append([]string{""}, cuts...), "")
		var metas []tikv.RegionMeta
		for i, id := range rapid.Permutation(ids(len(bounds)-1)).Draw(t, "ids") {
			metas = append(metas, peer(id, bounds[i], bounds[i+1]))
		}
		plan, err := makePlan(t, onAll(metas...), 3)
		require.NoError(t, err)
		for i, l := range plan.Leaders {
			require.Equal(t, bounds[i], string(l.Keys.Start))
			require.Equal(t, metas[i].Region, l.Region)
		}
	})
}

func ids(n int) []cluster.RegionID {
	out := make([]cluster.RegionID, n)
	for i := range out {
		out[i] = cluster.RegionID(i + 1)
	}
	return out
}
