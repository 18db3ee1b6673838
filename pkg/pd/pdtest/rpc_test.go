package pdtest_test

import (
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/metapb"
	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

func TestRPC_Regions_AreFound(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	c, ctx := dial(t, s), t.Context()
	h := &pdpb.RequestHeader{ClusterId: s.ClusterID()}
	at := func(key string) uint64 {
		answer, err := c.GetRegion(ctx, &pdpb.GetRegionRequest{Header: h, RegionKey: []byte(key)})
		require.NoError(t, err)
		return answer.GetRegion().GetId()
	}
	before := func(key string) uint64 {
		answer, err := c.GetPrevRegion(ctx, &pdpb.GetRegionRequest{Header: h, RegionKey: []byte(key)})
		require.NoError(t, err)
		return answer.GetRegion().GetId()
	}
	require.Equal(t, []uint64{10, 20, 20, 30}, []uint64{at(""), at("b"), at("c"), at("z")})
	require.Equal(t, []uint64{0, 10, 20}, []uint64{before("a"), before("b"), before("z")})
	answer, err := c.GetRegionByID(ctx, &pdpb.GetRegionByIDRequest{Header: h, RegionId: 20})
	require.NoError(t, err)
	require.Equal(t, uint64(2), answer.GetLeader().GetStoreId())

	scan := func(contain bool, keys ...*pdpb.KeyRange) *pdpb.BatchScanRegionsResponse {
		answer, err := c.BatchScanRegions(ctx, &pdpb.BatchScanRegionsRequest{Header: h, Ranges: keys, ContainAllKeyRange: contain})
		require.NoError(t, err)
		return answer
	}
	all := scan(true, &pdpb.KeyRange{StartKey: []byte("a"), EndKey: []byte("c")}, &pdpb.KeyRange{StartKey: []byte("c")})
	require.Len(t, all.GetRegions(), 3, "each once")
	require.Nil(t, all.GetHeader().GetError())
}

func TestRPC_RegionsWithHole_AreNotAllOfTheRange(t *testing.T) {
	t.Parallel()
	s := start(t, pdtest.Config{})
	bootstrap(t, s)
	report(t, s, regionOf(10, "", "b", 3), 1) // removes the dummy: [b, +inf) has no region
	c := dial(t, s)
	h := &pdpb.RequestHeader{ClusterId: s.ClusterID()}
	answer, err := c.BatchScanRegions(t.Context(), &pdpb.BatchScanRegionsRequest{
		Header: h, Ranges: []*pdpb.KeyRange{{}}, ContainAllKeyRange: true,
	})
	require.NoError(t, err)
	require.Equal(t, pdpb.ErrorType_REGIONS_NOT_CONTAIN_ALL_KEY_RANGE, answer.GetHeader().GetError().GetType())
	region, err := c.GetRegion(t.Context(), &pdpb.GetRegionRequest{Header: h, RegionKey: []byte("x")})
	require.NoError(t, err)
	require.Nil(t, region.GetRegion())
}

func TestRPC_Stores_AreCheckedAndListed(t *testing.T) {
	t.Parallel()
	s := start(t, pdtest.Config{})
	ctx := t.Context()
	put := func(store *metapb.Store) pdpb.ErrorType {
		answer, err := s.PutStore(ctx, &pdpb.PutStoreRequest{Store: store})
		require.NoError(t, err)
		return answer.GetHeader().GetError().GetType()
	}
	require.Equal(t, pdpb.ErrorType_NOT_BOOTSTRAPPED, put(&metapb.Store{Id: 1, Address: "a"}))
	bootstrap(t, s)
	again, err := s.Bootstrap(ctx, &pdpb.BootstrapRequest{})
	require.NoError(t, err)
	require.Equal(t, pdpb.ErrorType_ALREADY_BOOTSTRAPPED, again.GetHeader().GetError().GetType())
	require.Equal(t, pdpb.ErrorType_UNKNOWN, put(&metapb.Store{Id: 9, Address: "127.0.0.1:20161"}), "the address is taken")
	require.Equal(t, pdpb.ErrorType_OK, put(&metapb.Store{Id: 1, Address: "127.0.0.1:9"}), "a store moves")
	s.SetStoreState(3, metapb.StoreState_Tombstone)
	require.Equal(t, pdpb.ErrorType_STORE_TOMBSTONE, put(&metapb.Store{Id: 3, Address: "x"}))
	beat, err := s.StoreHeartbeat(ctx, &pdpb.StoreHeartbeatRequest{Stats: &pdpb.StoreStats{StoreId: 3}})
	require.NoError(t, err)
	require.Equal(t, pdpb.ErrorType_STORE_TOMBSTONE, beat.GetHeader().GetError().GetType())

	c := dial(t, s)
	h := &pdpb.RequestHeader{ClusterId: s.ClusterID()}
	list, err := c.GetAllStores(ctx, &pdpb.GetAllStoresRequest{Header: h, ExcludeTombstoneStores: true})
	require.NoError(t, err)
	require.Len(t, list.GetStores(), 2)
	one, err := c.GetStore(ctx, &pdpb.GetStoreRequest{Header: h, StoreId: 1})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:9", one.GetStore().GetAddress())
	up, err := c.IsBootstrapped(ctx, &pdpb.IsBootstrappedRequest{Header: h})
	require.NoError(t, err)
	require.True(t, up.GetBootstrapped())
	marked, err := c.IsSnapshotRecovering(ctx, &pdpb.IsSnapshotRecoveringRequest{Header: h})
	require.NoError(t, err)
	require.False(t, marked.GetMarked())
}

func TestRPC_SmallServices_Answer(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	c, ctx := dial(t, s), t.Context()
	h := &pdpb.RequestHeader{ClusterId: s.ClusterID()}
	conf, err := c.GetClusterConfig(ctx, &pdpb.GetClusterConfigRequest{Header: h})
	require.NoError(t, err)
	require.Equal(t, uint32(3), conf.GetCluster().GetMaxPeerCount())
	ts, err := c.GetMinTS(ctx, &pdpb.GetMinTSRequest{Header: h})
	require.NoError(t, err)
	require.Positive(t, ts.GetTimestamp().GetPhysical())
	_, err = c.GetExternalTimestamp(ctx, &pdpb.GetExternalTimestampRequest{Header: h})
	require.NoError(t, err)
	_, err = c.LoadGlobalConfig(ctx, &pdpb.LoadGlobalConfigRequest{})
	require.NoError(t, err)
	_, err = c.ReportBatchSplit(ctx, &pdpb.ReportBatchSplitRequest{Header: h})
	require.NoError(t, err)
	scatter, err := c.ScatterRegion(ctx, &pdpb.ScatterRegionRequest{Header: h, RegionsId: []uint64{10, 20}})
	require.NoError(t, err)
	require.Equal(t, uint64(100), scatter.GetFinishedPercentage())
	op, err := c.GetOperator(ctx, &pdpb.GetOperatorRequest{Header: h, RegionId: 10})
	require.NoError(t, err)
	require.Equal(t, pdpb.OperatorStatus_SUCCESS, op.GetStatus())
	gc, err := c.UpdateGCSafePoint(ctx, &pdpb.UpdateGCSafePointRequest{Header: h, SafePoint: 40})
	require.NoError(t, err)
	require.Equal(t, uint64(40), gc.GetNewSafePoint())
	gc, err = c.UpdateGCSafePoint(ctx, &pdpb.UpdateGCSafePointRequest{Header: h, SafePoint: 30})
	require.NoError(t, err)
	require.Equal(t, uint64(40), gc.GetNewSafePoint(), "it never falls")
	point, err := c.GetGCSafePoint(ctx, &pdpb.GetGCSafePointRequest{Header: h})
	require.NoError(t, err)
	require.Equal(t, s.GCSafePoint(), point.GetSafePoint())
}

func TestRPC_AnswerLost_WorkIsDone(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	s := running(t, pdtest.Config{Faults: faults})
	require.NoError(t, faults.Add(fault.Rule{Point: "pd.UpdateServiceGCSafePoint", Position: fault.After}))
	_, err := dial(t, s).UpdateServiceGCSafePoint(t.Context(), &pdpb.UpdateServiceGCSafePointRequest{
		Header: &pdpb.RequestHeader{ClusterId: s.ClusterID()}, ServiceId: []byte("x"), TTL: 60, SafePoint: 5,
	})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.Contains(t, s.ServiceSafePoints(), "x")
	require.Equal(t, []string{"UpdateServiceGCSafePoint x"}, s.MutatingCalls())
}

func TestEtcd_KeysPut_AreRead(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	conn, err := grpc.NewClient(strings.TrimPrefix(s.URLs()[0], "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	kv, ctx := etcdserverpb.NewKVClient(conn), t.Context()
	const key = "/tidb/store/gcworker/saved_safe_point"
	_, err = kv.Put(ctx, &etcdserverpb.PutRequest{Key: []byte(key), Value: []byte("7")})
	require.NoError(t, err)
	got, err := kv.Range(ctx, &etcdserverpb.RangeRequest{Key: []byte(key)})
	require.NoError(t, err)
	require.Equal(t, int64(1), got.GetCount())
	require.Equal(t, "7", string(got.GetKvs()[0].Value))
	none, err := kv.Range(ctx, &etcdserverpb.RangeRequest{Key: []byte("/x"), RangeEnd: []byte{0}})
	require.NoError(t, err)
	require.Empty(t, none.GetKvs())
	members, err := etcdserverpb.NewClusterClient(conn).MemberList(ctx, &etcdserverpb.MemberListRequest{})
	require.NoError(t, err)
	require.Equal(t, s.URLs(), members.GetMembers()[0].ClientURLs)
}

func TestHTTP_Regions_AreFound(t *testing.T) { //nolint:tparallel // the cases share what they ask
	t.Parallel()
	s := running(t, pdtest.Config{})
	for path, want := range map[string]string{
		"/regions":                     `{"count":3,`,
		"/regions/key?key=b&limit=1":   `{"count":1,"regions":[{"id":20,`,
		"/regions/key?key=a&end_key=c": `{"count":2,"regions":[{"id":10,`,
		"/regions/store/2":             `{"count":3,`,
		"/regions/store/9":             `{"count":0,`,
		"/regions/check/extra-peer":    `{"count":0,`,
		"/region/key/c":                `{"id":20,`,
		"/region/id/999":               `null`,
		"/members":                     `"cluster_id"`,
		"/leader":                      `pd-0`,
		"/version":                     `"v8.5.0"`,
		"/cluster":                     `"max_peer_count": 3`,
		"/cluster/status":              `"is_initialized": true`,
		"/health":                      `"health": true`,
		"/config/replicate":            `"max-replicas": 3`,
		"/config":                      `"min-resolved-ts-persistence-interval": "1s"`,
		"/regions/check/learner-peer":  `{"count":0,`,
		"/regions/check/pending-peer":  `{"count":0,`,
		"/regions/check/down-peer":     `{"count":0,`,
	} {
		t.Run(path, func(t *testing.T) { // what follows changes the server
			code, body := curl(t, s, "GET", api+path, "")
			require.Equal(t, 200, code, path)
			require.Contains(t, body, want, path)
		})
	}
	s.AddScheduler("evict-leader-scheduler")
	_, body := curl(t, s, "GET", api+"/schedulers", "")
	require.Contains(t, body, "evict-leader-scheduler")
	code, _ := curl(t, s, "DELETE", api+"/operators/10", "")
	require.Equal(t, 500, code, "no operator there")
}
