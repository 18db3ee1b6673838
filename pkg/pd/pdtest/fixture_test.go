package pdtest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
)

const (
	api           = "/pd/api/v1"
	balanceLeader = "balance-leader-scheduler"
	patience      = 20 * time.Second
	tick          = 5 * time.Millisecond
)

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

// curl is one HTTP call to the first member, as the transcript of the real PD shows them.
func curl(t *testing.T, s *pdtest.Server, method, path, body string) (int, string) {
	t.Helper()
	return curlAt(t, s.URLs()[0], method, path, body)
}

func curlAt(t *testing.T, url, method, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
	require.NoError(t, err)
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

func dial(t *testing.T, s *pdtest.Server) pdpb.PDClient {
	t.Helper()
	return dialAt(t, s.URLs()[0])
}

func dialAt(t *testing.T, url string) pdpb.PDClient {
	t.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return pdpb.NewPDClient(conn)
}

func bootstrap(t *testing.T, s *pdtest.Server) {
	t.Helper()
	ctx := t.Context()
	_, err := s.Bootstrap(ctx, &pdpb.BootstrapRequest{
		Store:  &metapb.Store{Id: 1, Address: "127.0.0.1:20161", Version: "8.5.0"},
		Region: &metapb.Region{Id: 2, RegionEpoch: epoch(1, 1), Peers: []*metapb.Peer{{Id: 3, StoreId: 1}}},
	})
	require.NoError(t, err)
	for id := uint64(1); id <= 3; id++ {
		_, err = s.PutStore(ctx, &pdpb.PutStoreRequest{Store: &metapb.Store{
			Id: id, Address: fmt.Sprintf("127.0.0.1:2016%d", id), Version: "8.5.0", StartTimestamp: 1795247133,
		}})
		require.NoError(t, err)
		_, err = s.StoreHeartbeat(ctx, &pdpb.StoreHeartbeatRequest{Stats: &pdpb.StoreStats{
			StoreId: id, Capacity: 100 << 30, Available: 60 << 30, UsedSize: 40 << 30,
		}})
		require.NoError(t, err)
	}
}

func epoch(confVer, version uint64) *metapb.RegionEpoch {
	return &metapb.RegionEpoch{ConfVer: confVer, Version: version}
}

// regionOf has peers id+1..id+3 on stores 1..3.
func regionOf(id uint64, start, end string, version uint64) *metapb.Region {
	r := &metapb.Region{Id: id, StartKey: []byte(start), EndKey: []byte(end), RegionEpoch: epoch(5, version)}
	for store := uint64(1); store <= 3; store++ {
		r.Peers = append(r.Peers, &metapb.Peer{Id: id + store, StoreId: store})
	}
	return r
}

// report sends a heartbeat of the region's leader on the store.
func report(t *testing.T, s *pdtest.Server, r *metapb.Region, store uint64) *pdpb.RegionHeartbeatResponse {
	t.Helper()
	answer, err := s.ReportRegion(t.Context(), &pdpb.RegionHeartbeatRequest{
		Region: r, Leader: r.GetPeers()[store-1], Term: 6, ApproximateSize: 1 << 20, ApproximateKeys: 1000,
	})
	require.NoError(t, err)
	return answer
}

// three regions that tile the key space.
func three() []*metapb.Region {
	return []*metapb.Region{regionOf(10, "", "b", 3), regionOf(20, "b", "d", 3), regionOf(30, "d", "", 3)}
}

// running is a bootstrapped stand-in with three regions, led by stores 1, 2 and 3.
func running(t *testing.T, cfg pdtest.Config) *pdtest.Server {
	t.Helper()
	s := start(t, cfg)
	bootstrap(t, s)
	for i, r := range three() {
		require.Nil(t, report(t, s, r, uint64(i+1)).GetHeader().GetError())
	}
	return s
}
