package tikv_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/disk"
	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// PD's remove-peer takes a peer off its store, and PD adds another one there, by a snapshot (measured on PD 8.5.0: 5 regions
// in 6 s, also where the peer led).
func TestStandIn_RemovePeer_IsRebuiltBySnapshot(t *testing.T) {
	t.Parallel()
	pd, err := pdtest.New(pdtest.Config{CoordinatorDelay: time.Nanosecond, Configs: map[string]any{"schedule.leader-schedule-limit": 0}})
	require.NoError(t, err)
	require.NoError(t, pd.Start())
	t.Cleanup(pd.Close)
	ctx := within(t, 60*time.Second)
	network := tikvtest.NewNetwork()
	var stores []*tikvtest.Store
	for range 3 {
		s, err := tikvtest.Start(ctx, tikvtest.Config{
			Data: disk.New(1 << 30), RaftLog: disk.New(1 << 30), PD: pd, Network: network,
			Options: tikvtest.Options{TickInterval: 20 * time.Millisecond, RegionHeartbeatInterval: 20 * time.Millisecond},
		})
		require.NoError(t, err)
		t.Cleanup(s.Kill)
		stores = append(stores, s)
	}
	require.NoError(t, tikvtest.BootstrapCluster(ctx, stores...))
	require.NoError(t, tikvtest.AwaitLeaders(ctx, stores...))
	var led *tikvtest.Store
	for _, s := range stores {
		if s.Peers()[0].Leader {
			led = s
		}
	}
	before := led.Peers()[0]
	body := fmt.Sprintf(`{"name":"remove-peer","region_id":%d,"store_id":%d}`, before.Region.Id, led.ID())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, pd.URLs()[0]+"/pd/api/v1/operators", strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Eventually(t, func() bool {
		peers := led.Peers()
		if len(peers) != 1 || peers[0].PeerID == before.PeerID || len(peers[0].Region.Peers) != 3 {
			return false
		}
		for _, p := range peers[0].Region.Peers {
			if p.Role != 0 {
				return false
			}
		}
		return true
	}, 60*time.Second, 10*time.Millisecond, "a new voter is where the old one was")
}
