package tikvtest_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// GET is for everybody; only who changes the configuration is asked for its name (status_server, should_check_cert).
func TestStatusPort_Config_NeedsPersistFalse(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	s := c.stores[0]
	get := func() string { return call(t, http.MethodGet, s, "/config", "", http.StatusOK) }
	require.Contains(t, get(), `"max-apply-unpersisted-log-limit":1024`)
	call(t, http.MethodPost, s, "/config?persist=false", `{"raftstore.max-apply-unpersisted-log-limit":0}`, http.StatusOK)
	require.Contains(t, get(), `"max-apply-unpersisted-log-limit":0`)
	require.False(t, s.EarlyApplyPersisted())
	call(t, http.MethodPost, s, "/config", `{"raftstore.max-apply-unpersisted-log-limit":"7"}`, http.StatusOK)
	require.True(t, s.EarlyApplyPersisted(), "persist is true by default")
	call(t, http.MethodPost, s, "/config?persist=false", `{"raftstore.nothing":0}`, http.StatusInternalServerError)
	s.Stop()
	c.start(0)
	s = c.stores[0]
	require.Contains(t, get(), `"max-apply-unpersisted-log-limit":1024`, "a restart brings the configured value back (measured)")
}

func call(t *testing.T, method string, s *tikvtest.Store, path, body string, want int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.StatusAddr()+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Close = true // goleak looks at idle connections, too
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, want, resp.StatusCode, string(answer))
	return string(answer)
}

// A hibernated peer looks at a change late, and a leader that was turned off is on again only after a leader change, when it
// has applied what it knew then (measured on TiKV 8.5.8).
func TestEarlyApply_OnlineChange_IsAdoptedAtTheTickAndOnOnlyAfterALeaderChange(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.put(key(1))
	s, kctx := c.leader(key(1))
	c.gauge(s, 1)
	c.setLimit(s, 0)
	c.gauge(s, 0)
	c.setLimit(s, 1024)
	c.put(key(1))
	require.Equal(t, 0, c.appliers(s), "on again only after a leader change")
	to := c.stores[0]
	if to == s {
		to = c.stores[1]
	}
	require.NoError(t, s.TransferLeader(kctx.RegionId, to.ID()))
	c.gauge(to, 1)
	c.gauge(s, 0)
}

func TestEarlyApply_HibernatedLeader_AdoptsAChangeLate(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.put(key(1))
	s, kctx := c.leader(key(1))
	c.gauge(s, 1)
	require.Eventually(t, func() bool { return s.Hibernates(kctx.RegionId) }, 30*time.Second, time.Millisecond)
	c.setLimit(s, 0)
	require.Equal(t, 1, c.appliers(s), "it sleeps")
	c.put(key(1))
	c.gauge(s, 0)
}

func TestEarlyApply_HibernatedLeader_IsWokenByARead(t *testing.T) {
	t.Parallel()
	never := quick
	never.StaleCheckTicks = math.MaxInt
	c := newClusterWith(t, never, 3)
	c.put(key(1))
	s, kctx := c.leader(key(1))
	c.gauge(s, 1)
	require.Eventually(t, func() bool { return s.Hibernates(kctx.RegionId) }, 30*time.Second, time.Millisecond)
	c.setLimit(s, 0)
	require.Equal(t, 1, c.appliers(s), "it sleeps")
	k := c.client()
	k.get(key(1), k.now())
	c.gauge(s, 0)
}

func TestEarlyApply_HibernatedLeader_AdoptsAChangeAtItsStaleCheck(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	s, kctx := c.leader(key(1))
	c.gauge(s, 1)
	require.Eventually(t, func() bool { return s.Hibernates(kctx.RegionId) }, 30*time.Second, time.Millisecond)
	c.setLimit(s, 0)
	c.gauge(s, 0)
	require.True(t, s.Hibernates(kctx.RegionId), "nothing woke it")
}

func (c *testCluster) put(k []byte) { c.client().put(k, []byte("v")) }

func (c *testCluster) setLimit(s *tikvtest.Store, limit int) {
	c.t.Helper()
	call(c.t, http.MethodPost, s, "/config?persist=false", fmt.Sprintf(`{"raftstore.max-apply-unpersisted-log-limit":%d}`, limit), http.StatusOK)
}

func (c *testCluster) appliers(s *tikvtest.Store) int {
	c.t.Helper()
	n := 0
	for line := range strings.Lines(call(c.t, http.MethodGet, s, "/metrics", "", http.StatusOK)) {
		_, _ = fmt.Sscanf(line, "tikv_raft_enable_unpersisted_apply_regions %d", &n)
	}
	return n
}

// gauge waits until the store's gauge is n.
func (c *testCluster) gauge(s *tikvtest.Store, n int) {
	c.t.Helper()
	require.Eventually(c.t, func() bool { return c.appliers(s) == n }, 30*time.Second, 5*time.Millisecond)
}
