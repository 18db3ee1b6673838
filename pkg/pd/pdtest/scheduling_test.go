package pdtest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
)

// leaders is a little of TiKV: it reports regions and moves leadership when PD orders it.
type leaders struct {
	regions []*metapb.Region
	on      map[uint64]uint64 // region to store
}

func newLeaders(n int) *leaders {
	l := &leaders{on: map[uint64]uint64{}}
	for i := range n {
		startKey, end := fmt.Sprintf("k%03d", i), fmt.Sprintf("k%03d", i+1)
		if i == 0 {
			startKey = ""
		}
		if i == n-1 {
			end = ""
		}
		r := regionOf(uint64(100+10*i), startKey, end, 50)
		l.regions = append(l.regions, r)
		l.on[r.GetId()] = 1
	}
	return l
}

// round reports all regions once and returns how many leaders moved.
func (l *leaders) round(t *testing.T, s *pdtest.Server) int {
	t.Helper()
	moved := 0
	for _, r := range l.regions {
		answer := report(t, s, r, l.on[r.GetId()])
		require.Nil(t, answer.GetHeader().GetError())
		if to := answer.GetTransferLeader().GetPeer(); to != nil {
			l.on[r.GetId()] = to.GetStoreId()
			moved++
		}
	}
	return moved
}

func (l *leaders) perStore() map[uint64]int {
	count := map[uint64]int{}
	for _, store := range l.on {
		count[store]++
	}
	return count
}

func TestBalanceLeader_AllOnOneStore_SpreadsThem(t *testing.T) {
	t.Parallel()
	for _, recovering := range []bool{false, true} {
		s := start(t, pdtest.Config{})
		if recovering {
			_, _ = curl(t, s, "POST", mark, "")
		}
		bootstrap(t, s)
		l := newLeaders(9)
		for range 20 {
			l.round(t, s)
		}
		require.Equal(t, map[uint64]int{1: 3, 2: 3, 3: 3}, l.perStore(), "recovering %v", recovering)
		require.Zero(t, l.round(t, s))
	}
}

func TestBalanceLeader_PausedOrLimited_LeavesLeaders(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(*testing.T, *pdtest.Server){
		"paused": func(t *testing.T, s *pdtest.Server) {
			t.Helper()
			require.NoError(t, s.PauseByOther(balanceLeader, time.Minute))
		},
		"ttl limit": func(t *testing.T, s *pdtest.Server) {
			t.Helper()
			code, _ := curl(t, s, "POST", api+"/config?ttlSecond=60", `{"schedule.leader-schedule-limit":0}`)
			require.Equal(t, 200, code)
		},
		"limit": func(t *testing.T, s *pdtest.Server) {
			t.Helper()
			code, _ := curl(t, s, "POST", api+"/config/schedule", `{"leader-schedule-limit":0}`)
			require.Equal(t, 200, code)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, pdtest.Config{})
			bootstrap(t, s)
			l := newLeaders(9)
			l.round(t, s) // starts the coordinator
			stop(t, s)
			before := l.perStore()
			for range 5 {
				l.round(t, s)
			}
			// What was on its way before may arrive.
			require.GreaterOrEqual(t, l.perStore()[1], before[1]-4)
			require.Greater(t, l.perStore()[1], 3)
		})
	}
}

func TestMovePeer_UnderWay_IsTheRegionsOnlyOperator(t *testing.T) {
	t.Parallel()
	s := start(t, pdtest.Config{})
	bootstrap(t, s)
	l := newLeaders(3)
	var moves []func()
	for _, r := range l.regions {
		done, ok := s.MovePeer(r.GetId())
		require.True(t, ok)
		moves = append(moves, done)
	}
	_, ok := s.MovePeer(100)
	require.False(t, ok)
	code, _ := curl(t, s, "POST", api+"/operators", `{"name":"transfer-leader","region_id":100,"to_store_id":2}`)
	require.Equal(t, 500, code)
	for range 5 {
		require.Zero(t, l.round(t, s))
	}
	for _, done := range moves {
		done()
	}
	require.Eventually(t, func() bool {
		l.round(t, s)
		return l.perStore()[1] == 1
	}, patience, tick)
}

func TestOperator_TransferLeader_RunsUntilItHappened(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{Configs: map[string]any{"schedule.leader-schedule-limit": 0}})
	const body = `{"name":"transfer-leader","region_id":10,"to_store_id":2}`
	code, _ := curl(t, s, "POST", api+"/operators", body)
	require.Equal(t, 200, code)
	code, text := curl(t, s, "POST", api+"/operators", body)
	require.Equal(t, 500, code)
	require.Equal(t, "\"[PD:operator:ErrAddOperator]failed to add operator, maybe already have one\"\n", text)

	answer := report(t, s, three()[0], 1)
	require.Equal(t, uint64(2), answer.GetTransferLeader().GetPeer().GetStoreId())
	_, text = curl(t, s, "GET", api+"/operators/10", "")
	require.Contains(t, text, "status: RUNNING")
	require.Nil(t, report(t, s, three()[0], 2).GetTransferLeader())
	_, text = curl(t, s, "GET", api+"/operators/10", "")
	require.Contains(t, text, "status: SUCCESS")
	_, text = curl(t, s, "GET", api+"/operators", "")
	require.Equal(t, "[]\n", text)
}

func TestRegionHeartbeat_Stream_GetsOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{Configs: map[string]any{"schedule.leader-schedule-limit": 0}})
	move := func(store string) {
		_, _ = curl(t, s, "DELETE", api+"/operators", "")
		code, _ := curl(t, s, "POST", api+"/operators", `{"name":"transfer-leader","region_id":10,"to_store_id":`+store+`}`)
		require.Equal(t, 200, code)
	}
	move("2")
	stream, err := dial(t, s).RegionHeartbeat(t.Context())
	require.NoError(t, err)
	r := three()[0]
	require.NoError(t, stream.Send(&pdpb.RegionHeartbeatRequest{
		Header: &pdpb.RequestHeader{ClusterId: s.ClusterID()}, Region: r, Leader: r.GetPeers()[0], Term: 7,
	}))
	answer, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, uint64(2), answer.GetTransferLeader().GetPeer().GetStoreId(), "the answer to a heartbeat")
	move("3")
	answer, err = stream.Recv()
	require.NoError(t, err)
	require.Equal(t, uint64(3), answer.GetTransferLeader().GetPeer().GetStoreId(), "without one")
	require.NoError(t, stream.CloseSend())
}

func TestAskBatchSplit_SwitchedOff_IsRefused(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	ask := func() *pdpb.AskBatchSplitResponse {
		answer, err := s.AskBatchSplit(t.Context(), &pdpb.AskBatchSplitRequest{Region: three()[0], SplitCount: 2})
		require.NoError(t, err)
		return answer
	}
	ids := map[uint64]bool{}
	for _, split := range ask().GetIds() {
		ids[split.GetNewRegionId()] = true
		for _, id := range split.GetNewPeerIds() {
			ids[id] = true
		}
	}
	require.Len(t, ids, 8)
	_, _ = curl(t, s, "POST", api+"/config?ttlSecond=60", `{"schedule.enable-tikv-split-region":false}`)
	require.NotNil(t, ask().GetHeader().GetError())
}

func TestReportRegion_Epochs_DecideWhatStays(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	count := func() string {
		_, body := curl(t, s, "GET", api+"/regions/count", "")
		return body
	}
	require.Contains(t, count(), `"count": 3`, "the bootstrap dummy was overlapped and is gone")

	old := regionOf(10, "", "b", 2)
	require.NotNil(t, report(t, s, old, 1).GetHeader().GetError(), "the same region with an older version")
	require.NotNil(t, report(t, s, regionOf(40, "a", "c", 2), 1).GetHeader().GetError(), "an older version over newer regions")
	require.Contains(t, count(), `"count": 3`)

	// A split of [b, d): the child is reported first and removes the parent, which comes back smaller.
	require.Nil(t, report(t, s, regionOf(50, "c", "d", 4), 1).GetHeader().GetError())
	require.Contains(t, count(), `"count": 3`)
	require.Nil(t, report(t, s, regionOf(20, "b", "c", 4), 1).GetHeader().GetError())
	require.Contains(t, count(), `"count": 4`)

	// A merge of all.
	require.Nil(t, report(t, s, regionOf(20, "", "", 9), 1).GetHeader().GetError())
	require.Contains(t, count(), `"count": 1`)
}
