package plan_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/resolve/plan"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// peer is one peer of a region of [start, end) with version 1, term 5 and index 10.
func peer(id cluster.RegionID, start, end string, change ...func(*tikv.RegionMeta)) tikv.RegionMeta {
	m := tikv.RegionMeta{
		Region: id, PeerID: cluster.PeerID(id) + 1000, LastLogTerm: 5, LastIndex: 10, Version: 1,
		Keys: cluster.KeyRange{Start: []byte(start), End: []byte(end)},
	}
	for _, f := range change {
		f(&m)
	}
	return m
}

func version(v uint64) func(*tikv.RegionMeta) { return func(m *tikv.RegionMeta) { m.Version = v } }
func logs(term, index, commit uint64) func(*tikv.RegionMeta) {
	return func(m *tikv.RegionMeta) { m.LastLogTerm, m.LastIndex, m.CommitIndex = term, index, commit }
}
func tombstone(m *tikv.RegionMeta) { m.Tombstone = true }

// peers is each store's metas of its peers.
type peers map[cluster.StoreID][]tikv.RegionMeta

// metas is the same in the form that a plan is made of.
func (p peers) metas(t require.TestingT) *plan.Metas {
	m := plan.NewMetas()
	for store, list := range p {
		table := m.Begin(store)
		for i := range list {
			require.NoError(t, table.Add(&list[i]))
		}
	}
	return m
}

// planner is a test, or one of rapid's cases.
type planner interface {
	require.TestingT
	Context() context.Context
}

func makePlan(t planner, p peers, replicas int, lost ...cluster.StoreID) (*plan.Plan, error) {
	return plan.Make(t.Context(), p.metas(t), plan.Rules{Replicas: replicas, Lost: lost})
}

// onAll is the same metas on stores 1, 2 and 3.
func onAll(metas ...tikv.RegionMeta) peers {
	return peers{1: metas, 2: metas, 3: metas}
}

func TestMakePlan_LongestLog_Leads(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name            string
		one, two, three [3]uint64
		want            cluster.StoreID
		lagging         int
	}{
		{"term before index", [3]uint64{5, 99, 99}, [3]uint64{6, 1, 0}, [3]uint64{5, 100, 0}, 2, 2},
		{"index before commit", [3]uint64{6, 1, 99}, [3]uint64{6, 2, 98}, [3]uint64{6, 3, 0}, 3, 2},
		{"commit last", [3]uint64{6, 3, 2}, [3]uint64{6, 3, 1}, [3]uint64{6, 3, 1}, 1, 2},
		{"tie", [3]uint64{6, 3, 1}, [3]uint64{6, 3, 1}, [3]uint64{6, 2, 1}, 1, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			metas := peers{}
			for i, l := range [][3]uint64{c.one, c.two, c.three} {
				metas[cluster.StoreID(i+1)] = []tikv.RegionMeta{peer(7, "", "", logs(l[0], l[1], l[2]))}
			}
			plan, err := makePlan(t, metas, 3)
			require.NoError(t, err)
			require.Len(t, plan.Leaders, 1)
			require.Equal(t, c.want, plan.Leaders[0].Store)
			require.Equal(t, c.lagging, plan.Lagging)
			require.Equal(t, 3, plan.Peers)
			require.Equal(t, []tikv.Command{{Region: 7, AsLeader: true}}, plan.Commands[c.want])
			require.Len(t, plan.Commands, 3, "stores that lead nothing are sent that")
		})
	}
}

func TestMakePlan_WhatCannotBeProven_IsRefused(t *testing.T) {
	t.Parallel()
	whole := peer(1, "", "")
	cases := []struct {
		name  string
		metas peers
		want  []string
	}{
		{"no store", peers{}, []string{"no store reported"}},
		{"no region", peers{1: nil, 2: nil, 3: nil}, []string{"no store holds a region"}},
		{"tombstones only", onAll(peer(1, "", "", tombstone)), []string{"no store holds a region"}},
		{"quorum", peers{1: {peer(1, "", "b"), peer(2, "b", ""), peer(9, "", "", tombstone)}, 2: {peer(1, "", "b")}, 3: nil}, []string{"region 2 on 1 store(s)", "fewer than 2 of 3"}},
		{"a peer without data is no replica", peers{1: {whole}, 2: {peer(1, "", "", version(0))}, 3: nil}, []string{"region 1 on 1 store(s)"}},
		{"tombstone is no replica", peers{1: {whole}, 2: {peer(1, "", "", tombstone)}, 3: nil}, []string{"region 1 on 1 store(s) and a tombstone on 1"}},
		{"hole at the start", onAll(peer(1, "a", "")), []string{"hole [-inf, 61)"}},
		{"hole in the middle", onAll(peer(1, "", "b"), peer(2, "c", "")), []string{"hole [62, 63)"}},
		{"hole at the end", onAll(peer(1, "", "b")), []string{"hole [62, +inf)"}},
		{"overlap of equals", onAll(peer(1, "", "c"), peer(2, "b", "")), []string{"overlap [62, 63)"}},
		{"overlap not covered", onAll(peer(1, "", "c"), peer(2, "b", "", version(9))), []string{"hole [-inf, 62)", "region 1 [-inf, 63) of version 1 is older than region 2 of version 9"}},
		{"two newer ones do not add up", onAll(peer(1, "", ""), peer(2, "", "c", version(2)), peer(3, "d", "", version(2))), []string{"hole [63, 64)", "region 1 "}},
		// Region 2 was newer than region 1 and is itself outdated: region 1 is not brought back.
		{"older than an outdated one", onAll(peer(1, "", "c"), peer(2, "b", "e", version(2)), peer(3, "c", "", version(3))), []string{"hole [-inf, 63)", "region 2 "}},
		{"two ranges of one version", peers{1: {peer(1, "", "")}, 2: {peer(1, "", "b")}, 3: {peer(1, "", "")}}, []string{"region 1 has two ranges of version 1 on stores [1 2 3]"}},
		{"a tombstone knows more", peers{1: {whole}, 2: {whole}, 3: {peer(1, "", "", logs(5, 11, 0), tombstone)}}, []string{"1 tombstones have a longer log", "region 1 on store 3"}},
		{"tombstones over a hole", onAll(peer(1, "", "b"), peer(2, "b", "", tombstone)), []string{"hole [62, +inf)", "region 2 [62, +inf) is a tombstone on store 1"}},
		{"same version twice", onAll(peer(1, "", ""), peer(2, "", "")), []string{"overlap [-inf, +inf)"}},
		{"twice on a store", peers{1: {whole, whole}, 2: {whole}}, []string{"store 1 reported region 1 twice"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			plan, err := makePlan(t, c.metas, 3)
			require.Nil(t, plan)
			require.Equal(t, failure.Corrupt, failure.KindOf(err))
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestMakePlan_ManyShortRegions_AreCountedAndFirstNamed(t *testing.T) {
	t.Parallel()
	var metas []tikv.RegionMeta
	for i := range 25 {
		metas = append(metas, peer(cluster.RegionID(i+1), fmt.Sprintf("%03d", i), fmt.Sprintf("%03d", i+1)))
	}
	_, err := makePlan(t, peers{4: metas}, 5)
	require.ErrorContains(t, err, "25 regions are on fewer than 3 of 5 replicas")
	require.ErrorContains(t, err, "region 10 on 1 store(s), and 15 more")
	require.NotEmpty(t, failure.HintOf(err))
}

func TestMakePlan_NewerRegion_WinsOverOlderThatItCovers(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		metas   peers
		leaders []cluster.RegionID
		dropped []cluster.RegionID
	}{
		{"whole range", onAll(peer(1, "", "", version(3)), peer(2, "b", "c", version(2))), []cluster.RegionID{1}, []cluster.RegionID{2}},
		{"same start", onAll(peer(1, "", "b", version(2)), peer(2, "", "", version(3))), []cluster.RegionID{2}, []cluster.RegionID{1}},
		{"several followers", onAll(peer(1, "", "", version(9)), peer(2, "b", "c", version(2)), peer(3, "d", "e", version(3)), peer(4, "f", "", version(4))), []cluster.RegionID{1}, []cluster.RegionID{2, 3, 4}},
		// Region 2 was merged into 1, which was then split into 1 and 3; one follower has done neither.
		{"several newer ones", peers{
			1: {peer(1, "", "b", version(4)), peer(3, "b", "", version(4))},
			2: {peer(1, "", "b", version(4)), peer(3, "b", "", version(4))},
			3: {peer(1, "", "a", version(2)), peer(2, "a", "", version(2))},
		}, []cluster.RegionID{1, 3}, []cluster.RegionID{2}},
		// A merge that one follower has not applied: what was merged is left there, on one store.
		{"merge not applied on one store", peers{
			1: {peer(1, "", "", version(3))},
			2: {peer(1, "", "", version(3))},
			3: {peer(1, "", "b", version(2)), peer(2, "b", "", version(1))},
		}, []cluster.RegionID{1}, []cluster.RegionID{2}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			plan, err := makePlan(t, c.metas, 3)
			require.NoError(t, err)
			var led []cluster.RegionID
			for _, l := range plan.Leaders {
				led = append(led, l.Region)
			}
			require.Equal(t, c.leaders, led)
			var dropped []cluster.RegionID
			for _, o := range plan.Dropped {
				dropped = append(dropped, o.Region)
			}
			require.Equal(t, c.dropped, dropped)
			for store, commands := range plan.Commands {
				for _, cmd := range commands {
					require.NotContains(t, c.dropped, cmd.Region, "store %s", store)
				}
			}
		})
	}
}

func TestMakePlan_EqualLogs_PeerThatAppliedTheSplitLeads(t *testing.T) {
	t.Parallel()
	// Store 1 has the split in its log and has not applied it: it still reports the old range.
	metas := peers{
		1: {peer(1, "", "", version(1))},
		2: {peer(1, "", "b", version(2)), peer(2, "b", "", version(2))},
		3: {peer(1, "", "b", version(2)), peer(2, "b", "", version(2))},
	}
	plan, err := makePlan(t, metas, 3)
	require.NoError(t, err)
	require.NotEqual(t, cluster.StoreID(1), plan.Leaders[0].Store)
	require.Equal(t, []cluster.RegionID{1}, plan.Uneven)
	require.Zero(t, plan.Lagging)
}

func TestMakePlan_AllocID_IsLargestOfAllIDs(t *testing.T) {
	t.Parallel()
	cases := map[string]peers{
		"store":     {4000: {peer(1, "", "")}, 2: {peer(1, "", "")}},
		"region":    {1: {peer(1, "", ""), {Region: 4000, Tombstone: true}}, 2: {peer(1, "", "")}},
		"peer":      {1: {peer(1, "", "", func(m *tikv.RegionMeta) { m.PeerID = 4000 })}, 2: {peer(1, "", "")}},
		"no data":   {1: {peer(1, "", ""), {Region: 2, PeerID: 4000}}, 2: {peer(1, "", "")}},
		"tombstone": {1: {peer(1, "", ""), {Region: 2, PeerID: 4000, Tombstone: true}}, 2: {peer(1, "", "")}},
	}
	for name, metas := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, err := makePlan(t, metas, 3)
			require.NoError(t, err)
			require.EqualValues(t, 4000, plan.AllocID)
		})
	}
}

func TestMakePlan_MetasOutOfOrder_GiveTheSamePlan(t *testing.T) {
	t.Parallel()
	a, b := peer(1, "", "b"), peer(2, "b", "")
	sorted, err := makePlan(t, onAll(a, b), 3)
	require.NoError(t, err)
	mixed := peers{1: {b, a}, 2: {a, b}, 3: {b, a}}
	plan, err := makePlan(t, mixed, 3)
	require.NoError(t, err)
	require.Equal(t, sorted, plan)
	require.Equal(t, cluster.RegionID(2), mixed[1][0].Region, "the input is not changed")
}
