package resolve_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
)

// A witness that was elected is relieved at once, and not after the time that a leader that does not come is waited for.
func TestRecover_WitnessLeads_AnotherPeerIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &ballot{rack: newRack(), wins: func(cluster.RegionID, cluster.StoreID) bool { return true }}
		b.list = func(leaders map[cluster.RegionID]cluster.StoreID) []cluster.Region {
			regions := listed(leaders)
			for i := range regions {
				regions[i].Peers = []cluster.Peer{{Store: 1, Witness: true}, {Store: 2}, {Store: 3}}
			}
			return regions
		}
		took, err := b.recover(t)
		require.NoError(t, err)
		require.Equal(t, []cluster.StoreID{1, 2}, b.asked)
		require.Less(t, took.Seconds(), 15.0)
	})
}
