package earlyapply_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/earlyapply"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// level is a replica whose data are where its log ends.
func level(term uint64) tikv.RaftState { return tikv.RaftState{Term: term, Last: 20, Applied: 20} }

// twoRegions are regions 10 and 20, with a replica on each of three stores.
func twoRegions() ([]cluster.Region, *fleet) {
	peers := []cluster.Peer{{ID: 101, Store: 1}, {ID: 102, Store: 2}, {ID: 103, Store: 3}, {ID: 104, Store: 9, Learner: true}}
	regions := []cluster.Region{{ID: 20, ConfVer: 3, Version: 2, Peers: peers}, {ID: 10, ConfVer: 3, Version: 1, Peers: peers}}
	states := map[string]map[cluster.RegionID]tikv.RaftState{}
	for _, address := range []string{"a", "b", "c"} {
		states[address] = map[cluster.RegionID]tikv.RaftState{10: level(6), 20: level(7)}
	}
	return regions, &fleet{states: states, unsteady: map[cluster.RegionID]int{}}
}

func TestUnproven_NothingHappened_IsNone(t *testing.T) {
	t.Parallel()
	regions, f := twoRegions()
	before := earlyapply.ReadReplicas(t.Context(), f, three(), regions)
	require.Equal(t, 2, before.Len())
	f.states["b"][10] = tikv.RaftState{Term: 6, Last: 99, Applied: 98} // it was written
	stores, unproven := before.Unproven(earlyapply.ReadReplicas(t.Context(), f, three(), regions))
	require.Empty(t, stores)
	require.Empty(t, unproven)
}

func TestUnproven_EachReason(t *testing.T) {
	t.Parallel()
	both := []cluster.RegionID{10, 20}
	for _, tc := range []struct {
		name    string
		before  func(*fleet)
		after   func(*fleet, []earlyapply.Store, []cluster.Region) []cluster.Region
		stores  []cluster.StoreID
		regions []cluster.RegionID
	}{
		{name: "a follower's data are ahead of its log", before: func(f *fleet) {
			f.states["c"][10] = tikv.RaftState{Term: 6, Last: 20, Applied: 21}
		}, regions: []cluster.RegionID{10}},
		{name: "a replica could not be read before", before: func(f *fleet) { delete(f.states["c"], 20) }, regions: []cluster.RegionID{20}},
		{name: "a replica could not be read before, and another one's term makes up for its own", before: func(f *fleet) {
			delete(f.states["c"], 20)
			f.states["b"][20] = level(14)
		}, after: func(f *fleet, _ []earlyapply.Store, r []cluster.Region) []cluster.Region {
			f.states["b"][20], f.states["c"][20] = level(7), level(7)
			return r
		}, regions: []cluster.RegionID{20}},
		{name: "a replica cannot be read after", after: func(f *fleet, _ []earlyapply.Store, r []cluster.Region) []cluster.Region {
			delete(f.states["b"], 20)
			return r
		}, regions: []cluster.RegionID{20}},
		{name: "a replica cannot be read after, and another one's term makes up for its own", after: func(f *fleet, _ []earlyapply.Store, r []cluster.Region) []cluster.Region {
			missing := f.states["b"][20].Term
			delete(f.states["b"], 20)
			f.states["c"][20] = level(f.states["c"][20].Term + missing)
			return r
		}, regions: []cluster.RegionID{20}},
		{name: "a replica came to lead", after: func(f *fleet, _ []earlyapply.Store, r []cluster.Region) []cluster.Region {
			f.states["b"][10] = level(7)
			return r
		}, regions: []cluster.RegionID{10}},
		{name: "a replica came to lead whose term another one had before", before: func(f *fleet) { f.states["c"][10] = level(8) },
			after: func(f *fleet, _ []earlyapply.Store, r []cluster.Region) []cluster.Region {
				f.states["b"][10] = level(7)
				return r
			}, regions: []cluster.RegionID{10}},
		{name: "a region was split", after: func(f *fleet, _ []earlyapply.Store, r []cluster.Region) []cluster.Region {
			r[0].Version++
			return r
		}, regions: []cluster.RegionID{20}},
		{name: "a replica was moved", after: func(f *fleet, _ []earlyapply.Store, r []cluster.Region) []cluster.Region {
			r[1].ConfVer++
			return r
		}, regions: []cluster.RegionID{10}},
		{name: "a region is new", after: func(f *fleet, _ []earlyapply.Store, r []cluster.Region) []cluster.Region {
			return append(r, cluster.Region{ID: 30, Peers: nil})
		}, regions: []cluster.RegionID{30}},
		{name: "a store was restarted", after: func(_ *fleet, s []earlyapply.Store, r []cluster.Region) []cluster.Region {
			s[1].StartedAt = s[1].StartedAt.Add(time.Second)
			return r
		}, stores: []cluster.StoreID{2}},
		{name: "a store's start is no longer reported", after: func(_ *fleet, s []earlyapply.Store, r []cluster.Region) []cluster.Region {
			s[2].StartedAt = time.Time{}
			return r
		}, stores: []cluster.StoreID{3}},
		{name: "a store is gone", after: func(f *fleet, _ []earlyapply.Store, r []cluster.Region) []cluster.Region {
			f.states["c"] = nil
			return r
		}, regions: both},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			regions, f := twoRegions()
			if tc.before != nil {
				tc.before(f)
			}
			before := earlyapply.ReadReplicas(t.Context(), f, three(), regions)
			stores := three()
			if tc.after != nil {
				regions = tc.after(f, stores, regions)
			}
			gotStores, gotRegions := before.Unproven(earlyapply.ReadReplicas(t.Context(), f, stores, regions))
			require.Equal(t, tc.stores, gotStores)
			require.Equal(t, tc.regions, gotRegions)
		})
	}
}

func TestReadReplicas_WrittenWhileItIsRead_IsReadAgain(t *testing.T) {
	t.Parallel()
	regions, f := twoRegions()
	f.unsteady[10] = 4
	before := earlyapply.ReadReplicas(t.Context(), f, three(), regions)
	_, unproven := before.Unproven(earlyapply.ReadReplicas(t.Context(), f, three(), regions))
	require.Empty(t, unproven)
}

func TestReadReplicas_TimeIsOver_ProvesNothing(t *testing.T) {
	t.Parallel()
	regions, f := twoRegions()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	before := earlyapply.ReadReplicas(ended, f, three(), regions)
	_, unproven := before.Unproven(earlyapply.ReadReplicas(t.Context(), f, three(), regions))
	require.Equal(t, []cluster.RegionID{10, 20}, unproven)
}
