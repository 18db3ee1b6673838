package pdtest_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/pingcap/kvproto/pkg/pdpb"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/pd/pdtest"
)

const (
	paused = "\"Pause or resume the scheduler successfully.\"\n"
	mark   = api + "/admin/cluster/markers/snapshot-recovering"
)

// The calls and answers were recorded from PD 8.5.0; they run in this order on one server.
func TestHTTP_RecordedCalls_GiveTheRecordedAnswers(t *testing.T) { //nolint:tparallel // the parts follow each other
	t.Parallel()
	s := running(t, pdtest.Config{})
	const all = "[\n  \"balance-hot-region-scheduler\",\n  \"balance-leader-scheduler\",\n  \"balance-region-scheduler\",\n  \"evict-slow-store-scheduler\"\n]\n"
	const updated, deleted = "\"The ttl config is updated.\"\n", "\"The ttl config is deleted.\"\n"
	for _, call := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/schedulers", "", 200, all},
		{"POST", "/schedulers/balance-leader-scheduler", `{"delay":300}`, 200, paused},
		{"GET", "/schedulers?status=paused", "", 200, "[\n  \"balance-leader-scheduler\"\n]\n"},
		{"POST", "/schedulers/balance-leader-scheduler", `{"delay":0}`, 200, paused},
		{"GET", "/schedulers?status=paused", "", 200, "[]\n"},
		{"POST", "/schedulers/all", `{"delay":300}`, 200, paused},
		{"GET", "/schedulers?status=paused", "", 200, all},
		{"POST", "/schedulers/all", `{"delay":0}`, 200, paused},
		{"POST", "/schedulers/no-such-scheduler", `{"delay":300}`, 500, "\"[PD:scheduler:ErrSchedulerNotFound]scheduler not found\"\n"},
		{"POST", "/config?ttlSecond=300", `{"schedule.leader-schedule-limit":1,"schedule.merge-schedule-limit":0}`, 200, updated},
		{"POST", "/config?ttlSecond=300", `{"schedule.enable-location-replacement":"false"}`, 200, updated},
		{"POST", "/config?ttlSecond=300", `{"schedule.enable-tikv-split-region":false}`, 200, updated},
		{"POST", "/config?ttlSecond=0", `{"schedule.leader-schedule-limit":4}`, 200, deleted},
		{"POST", "/config", `{"schedule.merge-schedule-limit":3}`, 400, "\"need to clean up TTL first for schedule.merge-schedule-limit\"\n"},
		{"GET", "/admin/cluster/markers/snapshot-recovering", "", 200, "{\n  \"marked\": false\n}\n"},
		{"POST", "/admin/base-alloc-id", `{"id":"1000000"}`, 403, "can only recover alloc id when recovering mark marked"},
		{"POST", "/admin/cluster/markers/snapshot-recovering", "", 200, ""},
		{"GET", "/admin/cluster/markers/snapshot-recovering", "", 200, "{\n  \"marked\": true\n}\n"},
		{"POST", "/admin/base-alloc-id", `{"id":1000000}`, 400, "invalid id value"},
		{"POST", "/admin/base-alloc-id", `{"id":"x"}`, 400, "strconv.ParseUint: parsing \"x\": invalid syntax"},
		{"POST", "/admin/base-alloc-id", `{"id":"1000000"}`, 200, ""},
		{"POST", "/admin/reset-ts", `{"tso":"1"}`, 403, "\"[PD:tso:ErrResetUserTimestamp]reset user timestamp failed, the specified ts is smaller than now\"\n"},
		{"POST", "/admin/reset-ts", `{"tso":"1","force-use-larger":true}`, 200, "\"Reset ts successfully.\"\n"},
		{"POST", "/admin/reset-ts", `{"tso":470613252578213889,"force-use-larger":true}`, 400, "\"invalid tso value\"\n"},
		{"POST", "/admin/reset-ts", `{"tso":"770613252578213889"}`, 403, "\"[PD:tso:ErrResetUserTimestamp]reset user timestamp failed, the specified ts is too larger than now\"\n"},
		{"POST", "/admin/reset-ts", `{"tso":"770613252578213889","force-use-larger":true}`, 200, "\"Reset ts successfully.\"\n"},
		{"DELETE", "/admin/cluster/markers/snapshot-recovering", "", 200, ""},
		{"DELETE", "/admin/cluster/markers/snapshot-recovering", "", 200, ""},
		{"GET", "/gc/safepoint", "", 200, "{\n  \"service_gc_safe_points\": [],\n  \"gc_safe_point\": 0\n}\n"},
		{"POST", "/admin/base-alloc-id", `{"id":"x"}`, 403, "can only recover alloc id when recovering mark marked"},
		{"POST", "/config?ttlSecond=-3", `{"schedule.leader-schedule-limit":4}`, 200, updated},
		{"SAFEPOINT", "/gc/safepoint", "", 200, "{\n  \"service_gc_safe_points\": [\n    {\n      \"service_id\": \"gc_worker\",\n      \"expired_at\": 9223372036854775807,\n      \"safe_point\": 0\n    }\n  ],\n  \"gc_safe_point\": 0\n}\n"},
		{"POST", "/operators", `{"name":"scatter-region","region_id":10}`, 200, "\"The operator is created.\"\n"},
		{"GET", "/operators/20", "", 500, "\"[PD:operator:ErrOperatorNotFound]operator not found\"\n"},
		{"DELETE", "/operators", "", 200, "\"All pending operators are canceled.\"\n"},
		{"GET", "/min-resolved-ts", "", 200, "{\n  \"is_real_time\": true,\n  \"min_resolved_ts\": 0,\n  \"persist_interval\": \"1s\",\n  \"stores_min_resolved_ts\": null\n}\n"},
		{"GET", "/config/cluster-version", "", 200, "\"8.5.0\"\n"},
		{"GET", "/regions/count", "", 200, "{\n  \"count\": 3,\n  \"regions\": null\n}\n"},
		{"GET", "/regions/check/miss-peer", "", 200, "{\"count\":0,\"regions\":[]}\n"},
		{"GET", "/region/id/10", "", 200, `{"id":10,"start_key":"","end_key":"62","epoch":{"conf_ver":5,"version":3},"peers":[{"role_name":"Voter","id":11,"store_id":1},{"role_name":"Voter","id":12,"store_id":2},{"role_name":"Voter","id":13,"store_id":3}],"leader":{"role_name":"Voter","id":11,"store_id":1},"cpu_usage":0,"written_bytes":0,"read_bytes":0,"written_keys":0,"read_keys":0,"approximate_size":1,"approximate_keys":1000}` + "\n"},
	} {
		t.Run(call.method+" "+call.path, func(t *testing.T) { // they run in this order
			if call.method == "SAFEPOINT" { // the first service safe point makes gc_worker's
				_, err := s.UpdateServiceGCSafePoint(t.Context(), &pdpb.UpdateServiceGCSafePointRequest{ServiceId: []byte("x"), TTL: 0})
				require.NoError(t, err)
				call.method = "GET"
			}
			status, got := curl(t, s, call.method, api+call.path, call.body)
			require.Equal(t, call.status, status, "%s %s: %s", call.method, call.path, got)
			if call.want == all { // in another order each time
				got = sorted(t, got)
			}
			require.Equal(t, call.want, got, "%s %s %s", call.method, call.path, call.body)
		})
	}
}

// sorted is a list of names in the order of the alphabet.
func sorted(t *testing.T, list string) string {
	t.Helper()
	var names []string
	require.NoError(t, json.Unmarshal([]byte(list), &names))
	slices.Sort(names)
	text, err := json.MarshalIndent(names, "", "  ")
	require.NoError(t, err)
	return string(text) + "\n"
}

func TestHTTP_BeforeBootstrap_RefusesWhatNeedsACluster(t *testing.T) {
	t.Parallel()
	s := start(t, pdtest.Config{})
	for _, path := range []string{"/stores", "/schedulers", "/regions", "/min-resolved-ts"} {
		status, body := curl(t, s, "GET", api+path, "")
		require.Equal(t, 500, status, path)
		require.Contains(t, body, "[PD:cluster:ErrNotBootstrapped]")
	}
	_, version := curl(t, s, "GET", api+"/config/cluster-version", "")
	require.Equal(t, "\"0.0.0\"\n", version)
	for _, path := range []string{"/config", "/health", "/members", "/admin/cluster/markers/snapshot-recovering"} {
		status, body := curl(t, s, "GET", api+path, "")
		require.Equal(t, 200, status, "%s: %s", path, body)
	}
}

func TestHTTP_Stores_LookAsRecorded(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	status, body := curl(t, s, "GET", api+"/store/1", "")
	require.Equal(t, 200, status)
	for _, part := range []string{
		`"id": 1`, `"address": "127.0.0.1:20161"`, `"start_timestamp": 1795247133`, `"state_name": "Up"`, `"capacity": "100GiB"`,
		`"available": "60GiB"`, `"used_size": "40GiB"`, `"leader_count": 1`, `"region_count": 3`, `"start_ts": "2026-11-21T07:45:33Z"`,
	} {
		require.Contains(t, body, part)
	}
	_, body = curl(t, s, "GET", api+"/stores?state=0&state=1&state=2", "")
	require.Contains(t, body, `"count": 3`)
}

func TestHTTP_TTLConfig_IsInEtcdOnly(t *testing.T) {
	t.Parallel()
	s := running(t, pdtest.Config{})
	status, _ := curl(t, s, "POST", api+"/config?ttlSecond=300", `{"schedule.leader-schedule-limit":1}`)
	require.Equal(t, 200, status)
	for _, path := range []string{"/config", "/config/schedule"} {
		_, body := curl(t, s, "GET", api+path, "")
		require.Contains(t, body, `"leader-schedule-limit": 4`)
	}
	// "/config/ttl/" to "/config/ttl0"; the key and the value come back in base64.
	_, body := curl(t, s, "POST", "/v3/kv/range", `{"key":"L2NvbmZpZy90dGwv","range_end":"L2NvbmZpZy90dGww"}`)
	require.Contains(t, body, `"key":"L2NvbmZpZy90dGwvc2NoZWR1bGUubGVhZGVyLXNjaGVkdWxlLWxpbWl0"`)
	require.Contains(t, body, `"value":"MQ=="`)
	require.Equal(t, map[string]string{"schedule.leader-schedule-limit": "1"}, s.TTLConfigs())
	status, body = curl(t, s, "POST", api+"/config?ttlSecond=300", `{"schedule.no-such-limit":1}`)
	require.Equal(t, 400, status)
	require.Contains(t, body, "unsupported ttl config")
}
