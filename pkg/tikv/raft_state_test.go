package tikv

import (
	"testing"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/raft_serverpb"
	"github.com/stretchr/testify/require"
)

func TestSettled_OnlyAnOrdinaryMember(t *testing.T) {
	t.Parallel()
	with := func(roles ...metapb.PeerRole) *raft_serverpb.RegionLocalState {
		local := &raft_serverpb.RegionLocalState{Region: &metapb.Region{Id: 1}}
		for i, role := range roles {
			local.Region.Peers = append(local.Region.Peers, &metapb.Peer{Id: uint64(i), Role: role})
		}
		return local
	}
	require.True(t, settled(with(metapb.PeerRole_Voter, metapb.PeerRole_Voter, metapb.PeerRole_Learner)))
	for name, local := range map[string]*raft_serverpb.RegionLocalState{
		"no region":             {},
		"a voter comes":         with(metapb.PeerRole_Voter, metapb.PeerRole_IncomingVoter),
		"a voter goes":          with(metapb.PeerRole_DemotingVoter, metapb.PeerRole_Voter),
		"it merges":             {Region: &metapb.Region{Id: 1}, MergeState: &raft_serverpb.MergeState{}},
		"it is removed":         {Region: &metapb.Region{Id: 1}, State: raft_serverpb.PeerState_Tombstone},
		"it applies a snapshot": {Region: &metapb.Region{Id: 1}, State: raft_serverpb.PeerState_Applying},
		"its state is Merging":  {Region: &metapb.Region{Id: 1}, State: raft_serverpb.PeerState_Merging},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.False(t, settled(local))
		})
	}
}
