package testbed

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// A version that one store alone has is seen, also while another store leads and answers rightly.
func TestCompareReplicas_OneStoreHasAVersionMore_IsSeen(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pd, err := pdtest.New(pdtest.Config{})
	require.NoError(t, err)
	require.NoError(t, pd.Start())
	t.Cleanup(pd.Close)
	network := tikvtest.NewNetwork()
	var stores []*tikvtest.Store
	for range 3 {
		s, err := tikvtest.Start(ctx, tikvtest.Config{
			Data: disk.New(1 << 30), RaftLog: disk.New(1 << 30), PD: pd, Network: network,
			Options: tikvtest.Options{TickInterval: 20 * time.Millisecond},
		})
		require.NoError(t, err)
		t.Cleanup(s.Kill)
		stores = append(stores, s)
	}
	require.NoError(t, tikvtest.BootstrapCluster(ctx, stores...))
	require.NoError(t, tikvtest.AwaitLeaders(ctx, stores...))
	require.Eventually(t, func() bool {
		n, behind, err := compareReplicas(stores)
		return n == 3 && behind == nil && err == nil
	}, time.Minute, 5*time.Millisecond)
	follower := stores[0]
	if follower.Peers()[0].Leader {
		follower = stores[1]
	}
	follower.Diverge(follower.Peers()[0].Region.GetId())
	_, _, err = compareReplicas(stores)
	require.ErrorContains(t, err, "differ on stores")
}
