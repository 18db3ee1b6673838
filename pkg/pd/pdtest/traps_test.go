package pdtest_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

func TestSchedulers_BeforeCoordinator_PausingAllDoesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, pdtest.Config{CoordinatorDelay: 300 * time.Millisecond})
	bootstrap(t, s)
	require.Empty(t, s.Schedulers(), "no region was reported")
	for _, r := range three() {
		report(t, s, r, 1)
	}
	status, body := curl(t, s, "POST", api+"/schedulers/all", `{"delay":600}`)
	require.Equal(t, 200, status)
	require.Equal(t, paused, body)
	require.Eventually(t, func() bool { return len(s.Schedulers()) == 4 }, patience, tick)
	_, body = curl(t, s, "GET", api+"/schedulers?status=paused", "")
	require.Equal(t, "[]\n", body)
}

func TestBaseAllocID_Lower_GoesDown(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	_, _ = curl(t, s, "POST", mark, "")
	for _, id := range []string{"5000", "10"} {
		status, _ := curl(t, s, "POST", api+"/admin/base-alloc-id", `{"id":"`+id+`"}`)
		require.Equal(t, 200, status)
	}
	answer, err := s.AllocID(t.Context(), &pdpb.AllocIDRequest{})
	require.NoError(t, err)
	require.Equal(t, uint64(11), answer.GetId())
	require.Equal(t, []string{"MarkRecovering", "RaiseAllocID 5000", "RaiseAllocID 10"}, s.MutatingCalls())
}

func TestRestart_EtcdKept_MemoryLost(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	ctx := t.Context()
	urls := s.URLs()
	_, _ = curl(t, s, "POST", mark, "")
	_, _ = curl(t, s, "POST", api+"/config?ttlSecond=300", `{"schedule.leader-schedule-limit":0}`)
	require.NoError(t, s.PauseByOther("all", time.Minute))
	header := &pdpb.RequestHeader{ClusterId: s.ClusterID()}
	_, err := dial(t, s).UpdateServiceGCSafePoint(ctx, &pdpb.UpdateServiceGCSafePointRequest{
		Header: header, ServiceId: []byte("svc"), TTL: 300, SafePoint: 77,
	})
	require.NoError(t, err)
	pointsBefore := s.ServiceSafePoints()
	id, err := s.AllocID(ctx, &pdpb.AllocIDRequest{})
	require.NoError(t, err)
	ts, err := s.FreshTS(ctx)
	require.NoError(t, err)

	require.NoError(t, s.Restart())

	require.Equal(t, urls, s.URLs())
	require.True(t, s.Recovering())
	require.Equal(t, map[string]string{"schedule.leader-schedule-limit": "0"}, s.TTLConfigs())
	require.Equal(t, pointsBefore, s.ServiceSafePoints(), "the TTL keeps counting")
	require.Contains(t, pointsBefore, "svc")
	next, err := s.AllocID(ctx, &pdpb.AllocIDRequest{})
	require.NoError(t, err)
	require.Greater(t, next.GetId(), id.GetId())
	later, err := s.FreshTS(ctx)
	require.NoError(t, err)
	require.Greater(t, later, ts)

	require.Empty(t, s.Schedulers())
	_, body := curl(t, s, "GET", api+"/schedulers", "")
	require.Equal(t, "[]\n", body)
	for _, r := range three() {
		report(t, s, r, 1)
	}
	list := s.Schedulers()
	require.Len(t, list, 4)
	for _, sch := range list {
		require.Zero(t, sch.ResumeAt, "the pause is gone")
	}
}

func TestKill_CallsInProcess_AreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, pdtest.Config{StartDelay: 200 * time.Millisecond})
	require.Eventually(t, func() bool {
		_, err := s.FreshTS(t.Context())
		return err == nil
	}, patience, tick)
	bootstrap(t, s)
	s.Kill()
	_, err := s.AllocID(t.Context(), &pdpb.AllocIDRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.NoError(t, s.Start())
	code, body := curl(t, s, "GET", api+"/stores", "")
	require.Equal(t, 500, code)
	require.Contains(t, body, "[PD:server:ErrServerNotStarted]")
	require.Eventually(t, func() bool {
		code, _ := curl(t, s, "GET", api+"/stores", "")
		return code == 200
	}, patience, tick)
}

func TestTTL_TimeScaled_RunsOut(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{Clock: timescale.New(3600), Configs: map[string]any{"schedule.leader-schedule-limit": 0}})
	require.Eventually(t, func() bool { return len(s.Schedulers()) == 4 }, patience, tick)
	_, _ = curl(t, s, "POST", api+"/config?ttlSecond=600", `{"schedule.region-schedule-limit":0}`)
	_, _ = curl(t, s, "POST", api+"/schedulers/"+balanceLeader, `{"delay":600}`)
	require.Eventually(t, func() bool {
		return len(s.TTLConfigs()) == 0 && s.Schedulers()[1].ResumeAt.IsZero()
	}, patience, tick)
}

func TestServiceSafePoint_BelowLowest_IsNotAccepted(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	c := dial(t, s)
	set := func(service string, ttl int64, ts uint64) *pdpb.UpdateServiceGCSafePointResponse {
		answer, err := c.UpdateServiceGCSafePoint(t.Context(), &pdpb.UpdateServiceGCSafePointRequest{
			Header: &pdpb.RequestHeader{ClusterId: s.ClusterID()}, ServiceId: []byte(service), TTL: ttl, SafePoint: ts,
		})
		require.NoError(t, err)
		return answer
	}
	require.Zero(t, set("a", 300, 50).GetMinSafePoint(), "gc_worker's")
	s.SetGCSafePoint(100)
	require.Equal(t, uint64(50), set("b", 300, 60).GetMinSafePoint())
	require.Equal(t, uint64(50), set("c", 300, 40).GetMinSafePoint())
	require.NotContains(t, s.ServiceSafePoints(), "c")
	require.Equal(t, uint64(60), set("a", 0, 0).GetMinSafePoint())
	answer := set("b", -1, 0)
	require.Equal(t, uint64(100), answer.GetMinSafePoint())
	require.Equal(t, "gc_worker", string(answer.GetServiceId()))
	code, _ := curl(t, s, "DELETE", api+"/gc/safepoint/b", "")
	require.Equal(t, 200, code)
}

func TestRPC_OtherCluster_IsRefused(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	_, err := dial(t, s).AllocID(t.Context(), &pdpb.AllocIDRequest{Header: &pdpb.RequestHeader{ClusterId: 1}})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
}

func TestRPC_QueryRegion_IsUnimplemented(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	stream, err := dial(t, s).QueryRegion(t.Context())
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, codes.Unimplemented, status.Code(err))
}

func TestMinResolvedTS_UnknownStore_IsTheLargestNumber(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	for store := uint64(1); store <= 3; store++ {
		_, err := s.ReportMinResolvedTS(t.Context(), &pdpb.ReportMinResolvedTsRequest{StoreId: store, MinResolvedTs: 100 + store})
		require.NoError(t, err)
	}
	read := func(path string) (ts uint64, stores map[string]uint64) {
		code, body := curl(t, s, "GET", api+"/min-resolved-ts"+path, "")
		require.Equal(t, 200, code)
		var answer struct {
			TS     uint64            `json:"min_resolved_ts"`
			Stores map[string]uint64 `json:"stores_min_resolved_ts"`
		}
		require.NoError(t, json.Unmarshal([]byte(body), &answer))
		return answer.TS, answer.Stores
	}
	ts, stores := read("/77")
	require.Equal(t, uint64(18446744073709551615), ts)
	require.Nil(t, stores)
	ts, stores = read("?scope=2,3")
	require.Equal(t, uint64(102), ts)
	require.Len(t, stores, 2)
	ts, stores = read("?scope=cluster")
	require.Equal(t, uint64(101), ts)
	require.Len(t, stores, 3)
}

func TestTSO_PastItsEnd_IsBrokenAfterRestart(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	code, _ := curl(t, s, "POST", api+"/admin/reset-ts", `{"tso":"770613252578213889","force-use-larger":true}`)
	require.Equal(t, 200, code)
	_, err := s.FreshTS(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Restart())
	_, err = s.FreshTS(t.Context())
	require.Error(t, err)
}

func TestSchedulers_Order_ChangesFromCallToCall(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	orders, names := map[string]bool{}, ""
	for range 50 { // the same one each time: once in 10^69 runs
		_, body := curl(t, s, "GET", api+"/schedulers", "")
		orders[body] = true
		if names == "" {
			names = sorted(t, body)
		}
		require.Equal(t, names, sorted(t, body))
	}
	require.Greater(t, len(orders), 1)
}

func TestRestart_FlowRoundByDigit_ReadsAs127(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	_, body := curl(t, s, "GET", api+"/config", "")
	require.Contains(t, body, `"flow-round-by-digit": 3`)
	require.NoError(t, s.Restart())
	_, body = curl(t, s, "GET", api+"/config", "")
	require.Contains(t, body, `"flow-round-by-digit": 127`)
}
