package pd_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
)

const (
	patience = 20 * time.Second
	tick     = 5 * time.Millisecond
)

// start runs a stand-in whose coordinator starts at once.
func start(t *testing.T, cfg pdtest.Config) *pdtest.Server {
	t.Helper()
	if cfg.CoordinatorDelay == 0 {
		cfg.CoordinatorDelay = time.Nanosecond
	}
	s, err := pdtest.New(cfg)
	require.NoError(t, err)
	require.NoError(t, s.Start())
	t.Cleanup(s.Close)
	return s
}

func open(t *testing.T, addresses ...string) *pd.Client {
	t.Helper()
	c, err := pd.Open(t.Context(), pd.Config{Addresses: addresses})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// region i of n over the keys "k0000".., with a peer on each of three stores; all lead on store 1.
func region(i, n int) *metapb.Region {
	id := uint64(100 + 10*i)
	r := &metapb.Region{Id: id, RegionEpoch: &metapb.RegionEpoch{ConfVer: 5, Version: uint64(n)}}
	if i > 0 {
		r.StartKey = fmt.Appendf(nil, "k%04d", i)
	}
	if i < n-1 {
		r.EndKey = fmt.Appendf(nil, "k%04d", i+1)
	}
	for store := uint64(1); store <= 3; store++ {
		r.Peers = append(r.Peers, &metapb.Peer{Id: id + store, StoreId: store})
	}
	return r
}

// bootstrap makes a cluster of three stores and n regions without leaders.
func bootstrap(t *testing.T, s *pdtest.Server) {
	t.Helper()
	ctx := t.Context()
	store := func(id uint64) *metapb.Store {
		return &metapb.Store{
			Id: id, Address: fmt.Sprintf("127.0.0.1:2016%d", id), Version: "8.5.0", StartTimestamp: 1795247133,
			Labels: []*metapb.StoreLabel{{Key: "host", Value: fmt.Sprintf("h%d", id)}},
		}
	}
	answer, err := s.Bootstrap(ctx, &pdpb.BootstrapRequest{
		Store: store(1),
		Region: &metapb.Region{
			Id: 2, RegionEpoch: &metapb.RegionEpoch{ConfVer: 1, Version: 1}, Peers: []*metapb.Peer{{Id: 3, StoreId: 1}},
		},
	})
	require.NoError(t, err)
	require.Nil(t, answer.GetHeader().GetError())
	for id := uint64(1); id <= 3; id++ {
		_, err := s.PutStore(ctx, &pdpb.PutStoreRequest{Store: store(id)})
		require.NoError(t, err)
		_, err = s.StoreHeartbeat(ctx, &pdpb.StoreHeartbeatRequest{Stats: &pdpb.StoreStats{StoreId: id, Capacity: 100 << 30}})
		require.NoError(t, err)
	}
}

// report sends the heartbeats of n regions with their leaders on the given store.
func report(t *testing.T, s *pdtest.Server, n int, store uint64) {
	t.Helper()
	for i := range n {
		r := region(i, n)
		answer, err := s.ReportRegion(t.Context(), &pdpb.RegionHeartbeatRequest{Region: r, Leader: r.GetPeers()[store-1], Term: 6, ApproximateSize: 1 << 20})
		require.NoError(t, err)
		require.Nil(t, answer.GetHeader().GetError())
	}
}

// running is a stand-in with three stores and n regions that its schedulers leave alone.
func running(t *testing.T, cfg pdtest.Config, n int) *pdtest.Server {
	t.Helper()
	if cfg.Configs == nil {
		cfg.Configs = map[string]any{"schedule.leader-schedule-limit": 0}
	}
	s := start(t, cfg)
	bootstrap(t, s)
	report(t, s, n, 1)
	return s
}
