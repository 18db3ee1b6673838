package pd_test

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/eraftpb"
	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
)

// beat reports the region, led on the store, and returns PD's orders.
func beat(t *testing.T, s *pdtest.Server, r *metapb.Region, store uint64) *pdpb.RegionHeartbeatResponse {
	t.Helper()
	for _, p := range r.GetPeers() {
		if p.GetStoreId() == store {
			answer, err := s.ReportRegion(t.Context(), &pdpb.RegionHeartbeatRequest{Region: r, Leader: p, Term: 6, ApproximateSize: 1 << 20})
			require.NoError(t, err)
			require.Nil(t, answer.GetHeader().GetError())
			return answer
		}
	}
	t.Fatalf("region has no peer on store %d", store)
	return nil
}

// A leader is moved, its peer is removed, and PD adds one again once its limit lets it.
func TestRemovePeer_OfTheLeader_IsMovedRemovedAndMadeUpFor(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{Configs: map[string]any{"schedule.leader-schedule-limit": 0, "schedule.replica-schedule-limit": 0}}, 1)
	c := open(t, s.URLs()...)
	r := region(0, 1)
	id := cluster.RegionID(r.GetId())
	require.NoError(t, c.RemovePeer(t.Context(), id, 1))
	err := c.RemovePeer(t.Context(), id, 1)
	require.Equal(t, failure.Limited, failure.KindOf(err), "it is under way: %v", err)
	answer := beat(t, s, r, 1)
	require.Nil(t, answer.GetChangePeer())
	require.NotNil(t, answer.GetTransferLeader(), "the leader hands the region over first")
	change := beat(t, s, r, 2).GetChangePeer()
	require.Equal(t, eraftpb.ConfChangeType_RemoveNode, change.GetChangeType())
	require.Equal(t, uint64(1), change.GetPeer().GetStoreId())
	r.Peers, r.RegionEpoch.ConfVer = r.Peers[1:], r.RegionEpoch.ConfVer+1
	require.Nil(t, beat(t, s, r, 2).GetChangePeer(), "replica-schedule-limit is 0")
	require.NoError(t, c.RemovePeer(t.Context(), id, 1), "a peer that is not there is success")
	require.NoError(t, c.SetTTLConfig(t.Context(), map[string]any{"schedule.replica-schedule-limit": 4}, patience))
	change = beat(t, s, r, 2).GetChangePeer()
	require.Equal(t, eraftpb.ConfChangeType_AddLearnerNode, change.GetChangeType())
	require.Equal(t, uint64(1), change.GetPeer().GetStoreId())
	r.Peers, r.RegionEpoch.ConfVer = append(r.Peers, change.GetPeer()), r.RegionEpoch.ConfVer+1
	change = beat(t, s, r, 2).GetChangePeer()
	require.Equal(t, eraftpb.ConfChangeType_AddNode, change.GetChangeType(), "it has its snapshot")
}

func TestRemovePeer_Refusals_HaveTheirKind(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{}, 1)
	c := open(t, s.URLs()...)
	err := c.RemovePeer(t.Context(), 4711, 1)
	require.Equal(t, failure.NotFound, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "remove peer of region 4711 on store 1")
	id := cluster.RegionID(region(0, 1).GetId())
	require.NoError(t, c.RemovePeer(t.Context(), id, 9), "no peer there")
}
