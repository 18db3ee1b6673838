package pd_test

import (
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
)

func TestRegions_ManyPages_TileTheKeySpace(t *testing.T) {
	t.Parallel()
	const n = 5000 // over two pages
	s := running(t, pdtest.Config{}, n)
	c := open(t, s.URLs()...)
	regions, err := c.Regions(t.Context(), cluster.KeyRange{})
	require.NoError(t, err)
	require.Len(t, regions, n)
	ranges := make([]cluster.KeyRange, 0, n)
	for _, r := range regions {
		ranges = append(ranges, r.Keys)
		require.Equal(t, cluster.StoreID(1), r.Leader.Store)
		require.Len(t, r.Peers, 3)
	}
	require.NoError(t, cluster.Tile(ranges, 5))

	some, err := c.Regions(t.Context(), cluster.KeyRange{Start: []byte("k0002"), End: []byte("k0004x")})
	require.NoError(t, err)
	require.Len(t, some, 3)
	require.Equal(t, cluster.EncodedKey("k0002"), some[0].Keys.Start)
}

func TestRegions_WithoutLeader_AreThere(t *testing.T) {
	t.Parallel()
	s := start(t, pdtest.Config{})
	bootstrap(t, s)
	c := open(t, s.URLs()...)
	regions, err := c.Regions(t.Context(), cluster.KeyRange{})
	require.NoError(t, err)
	require.Len(t, regions, 1, "the bootstrap dummy")
	require.Zero(t, regions[0].Leader)

	report(t, s, 3, 2)
	require.NoError(t, s.Restart())
	require.Eventually(t, func() bool {
		regions, err = c.Regions(t.Context(), cluster.KeyRange{})
		return err == nil
	}, patience, tick)
	require.Len(t, regions, 3)
	for _, r := range regions {
		require.Zero(t, r.Leader, "leaders are not on disk")
		require.Len(t, r.Peers, 3)
	}
}

func TestRegions_DownPendingLearner_AreReported(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{}, 1)
	r := region(0, 2)
	r.EndKey = nil
	r.Peers[2].Role = metapb.PeerRole_Learner
	_, err := s.ReportRegion(t.Context(), &pdpb.RegionHeartbeatRequest{
		Region: r, Leader: r.GetPeers()[0], Term: 9, PendingPeers: r.GetPeers()[2:],
		DownPeers: []*pdpb.PeerStats{{Peer: r.GetPeers()[1], DownSeconds: 60}},
	})
	require.NoError(t, err)
	regions, err := open(t, s.URLs()...).Regions(t.Context(), cluster.KeyRange{})
	require.NoError(t, err)
	require.Len(t, regions, 1)
	require.True(t, regions[0].Peers[2].Learner)
	require.False(t, regions[0].Joint)
	require.Equal(t, []cluster.PeerID{regions[0].Peers[2].ID}, regions[0].Pending)
	require.Equal(t, []cluster.PeerID{regions[0].Peers[1].ID}, regions[0].DownPeer)
}

func TestRegions_MembersChange_IsJoint(t *testing.T) {
	t.Parallel()
	for _, role := range []metapb.PeerRole{metapb.PeerRole_IncomingVoter, metapb.PeerRole_DemotingVoter} {
		t.Run(role.String(), func(t *testing.T) {
			t.Parallel()
			s := running(t, pdtest.Config{}, 1)
			r := region(0, 2)
			r.EndKey = nil
			r.Peers[2].Role = role
			_, err := s.ReportRegion(t.Context(), &pdpb.RegionHeartbeatRequest{Region: r, Leader: r.GetPeers()[0], Term: 9})
			require.NoError(t, err)
			regions, err := open(t, s.URLs()...).Regions(t.Context(), cluster.KeyRange{})
			require.NoError(t, err)
			require.Len(t, regions, 1)
			require.True(t, regions[0].Joint)
		})
	}
}

func TestStores_AllStates_AreListed(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{}, 4)
	c := open(t, s.URLs()...)
	_, err := s.PutStore(t.Context(), &pdpb.PutStoreRequest{Store: &metapb.Store{
		Id: 9, Address: "127.0.0.1:1", Labels: []*metapb.StoreLabel{{Key: "engine", Value: "tiflash"}},
	}})
	require.NoError(t, err)
	s.SetStoreState(2, metapb.StoreState_Offline)
	s.SetStoreState(3, metapb.StoreState_Tombstone)
	stores, err := c.Stores(t.Context())
	require.NoError(t, err)
	require.Len(t, stores, 4)
	states := map[cluster.StoreID]pd.StoreState{}
	for _, st := range stores {
		states[st.ID] = st.State
		require.Equal(t, st.ID != 9, st.IsTiKV())
	}
	require.Equal(t, map[cluster.StoreID]pd.StoreState{1: pd.StoreUp, 2: pd.StoreOffline, 3: pd.StoreTombstone, 9: pd.StoreDown}, states)
	require.Equal(t, 4, stores[0].Leaders)
	require.Equal(t, 4, stores[0].Regions)
	require.Equal(t, "h1", stores[0].Labels["host"])
	require.Equal(t, time.Unix(1795247133, 0).UTC(), stores[0].StartedAt)
}

func TestResolvedTS_Stores_ReportsMinimumAndStoresWithout(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{}, 6)
	report6 := func(i int, store uint64) {
		r := region(i, 6)
		_, err := s.ReportRegion(t.Context(), &pdpb.RegionHeartbeatRequest{Region: r, Leader: r.GetPeers()[store-1], Term: 7})
		require.NoError(t, err)
	}
	report6(0, 2)
	c := open(t, s.URLs()...)
	resolved := func(store, ts uint64) pd.ResolvedTS {
		_, err := s.ReportMinResolvedTS(t.Context(), &pdpb.ReportMinResolvedTsRequest{StoreId: store, MinResolvedTs: ts})
		require.NoError(t, err)
		got, err := c.ResolvedTS(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Second, got.Interval)
		require.True(t, got.RealTime)
		return got
	}
	got := resolved(1, 100)
	require.Zero(t, got.TS, "store 2 leads and has not reported")
	require.Equal(t, map[cluster.StoreID]cluster.TS{1: 100, 2: 0}, got.Stores)
	got = resolved(2, 90)
	require.Equal(t, cluster.TS(90), got.TS)
	require.Equal(t, cluster.TS(90), resolved(2, 80).TS, "it never falls")

	// After a restart the old value stays until stores report again.
	require.NoError(t, s.Restart())
	require.Eventually(t, func() bool {
		var err error
		got, err = c.ResolvedTS(t.Context())
		return err == nil
	}, patience, tick)
	require.Equal(t, cluster.TS(90), got.TS)
	require.Empty(t, got.Stores)
}

func TestResolvedTS_ReportingOff_HasNoInterval(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{Configs: map[string]any{"pd-server.min-resolved-ts-persistence-interval": "0s"}}, 2)
	got, err := open(t, s.URLs()...).ResolvedTS(t.Context())
	require.NoError(t, err)
	require.Zero(t, got.Interval)
	require.False(t, got.RealTime)
	require.Zero(t, got.TS)
}
