package tikv_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"crypto/tls"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/reach"
	"github.com/tisnap/tisnap/pkg/standin/fault"
	"github.com/tisnap/tisnap/pkg/tikv"
)

func TestEarlyApply_Store_IsReadSetAndCounted(t *testing.T) {
	t.Parallel()
	c := startStandIn(t)
	ctx := within(t, 30*time.Second)
	at := c.store.StatusAddr()
	require.NotEqual(t, c.store.Addr(), at)
	early, err := c.client.EarlyApply(ctx, at)
	require.NoError(t, err)
	require.Equal(t, tikv.EarlyApply{Known: true, Limit: 1024}, early)
	require.Eventually(t, func() bool {
		n, err := c.client.EarlyAppliers(ctx, at)
		return err == nil && n == len(c.store.Peers())
	}, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, c.client.SetEarlyApply(ctx, at, 0))
	early, err = c.client.EarlyApply(ctx, at)
	require.NoError(t, err)
	require.Equal(t, tikv.EarlyApply{Known: true}, early)
	require.Eventually(t, func() bool {
		n, err := c.client.EarlyAppliers(ctx, at)
		return err == nil && n == 0
	}, 30*time.Second, 10*time.Millisecond, "the leaders adopt it at their next tick")
	require.False(t, c.store.EarlyApplyPersisted(), "a restart has to bring the file's value back")
}

// What was set and could not be persisted, or whose answer was lost, is there: it is the reading that shows it.
func TestEarlyApply_ErrorAfterTheChange_IsSeenByReading(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{"an error": "500", "no answer": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := startStandIn(t)
			ctx := within(t, 30*time.Second)
			require.NoError(t, c.faults.Add(fault.Rule{Point: "tikv.*.Status.PostConfig", Position: fault.After, Code: code, Times: -1}))
			require.Error(t, c.client.SetEarlyApply(ctx, c.store.StatusAddr(), 7))
			early, err := c.client.EarlyApply(ctx, c.store.StatusAddr())
			require.NoError(t, err)
			require.Equal(t, uint64(7), early.Limit)
		})
	}
}

func TestEarlyApply_StatusPortClosed_IsUnready(t *testing.T) {
	t.Parallel()
	c := startStandIn(t)
	c.store.CloseStatusPort()
	_, err := c.client.EarlyApply(within(t, 30*time.Second), c.store.StatusAddr())
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
	require.Contains(t, failure.HintOf(err), "status port")
	require.ErrorContains(t, err, "read early apply of store at "+c.store.StatusAddr())
	_, err = c.client.EarlyApply(t.Context(), "")
	require.Equal(t, failure.Unready, failure.KindOf(err), "%v", err)
}

// Whoever lost the lock must not change a store that another run has set.
func TestEarlyApply_LockLost_NothingIsSet(t *testing.T) {
	t.Parallel()
	c := startStandIn(t)
	lost := errors.New("the lock is lost")
	ctx := fenced.With(t.Context(), func(context.Context) error { return failure.Wrap(lost, failure.Conflict, "check lock", "c") })
	err := c.client.SetEarlyApply(ctx, c.store.StatusAddr(), 0)
	require.ErrorIs(t, err, lost)
	require.True(t, fenced.Refused(err))
	limit, _ := c.store.EarlyApplyLimit()
	require.Equal(t, uint64(1024), limit)
}

func TestEarlyApply_Answers_HaveTheirKind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code int
		body string
		kind failure.Kind
	}{
		"no certificate of that name":  {http.StatusForbidden, "certificate role error", failure.Denied},
		"no such page":                 {http.StatusNotFound, "path not found", failure.Unready},
		"a method it does not take":    {http.StatusMethodNotAllowed, "", failure.Unready},
		"an error of the store":        {http.StatusInternalServerError, "failed to update", failure.Unknown},
		"a proxy that is busy":         {http.StatusServiceUnavailable, "", failure.Limited},
		"no configuration of a store":  {http.StatusOK, `{"name":"pd"}`, failure.Unknown},
		"text":                         {http.StatusOK, `<html>`, failure.Unknown},
		"a limit that is no number":    {http.StatusOK, `{"raftstore":{"max-apply-unpersisted-log-limit":"x"}}`, failure.Unknown},
		"a redirect to somewhere else": {http.StatusFound, "", failure.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := serveStatus(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			})
			client := tikv.Open(tikv.Config{})
			t.Cleanup(client.Close)
			_, err := client.EarlyApply(within(t, 30*time.Second), at)
			require.Error(t, err)
			require.Equal(t, c.kind, failure.KindOf(err), "%v", err)
		})
	}
}

// A store without the setting never applies early: that is not an error.
func TestEarlyApply_OldStore_HasNoSettingAndNoGauge(t *testing.T) {
	t.Parallel()
	at := serveStatus(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/config" {
			_, _ = w.Write([]byte(`{"raftstore":{"hibernate-regions":true}}`))
			return
		}
		_, _ = w.Write([]byte("# HELP tikv_raft_enable_unpersisted_apply_regions text\ntikv_other 3\n" + strings.Repeat("x", 1<<17) + " 1\n"))
	})
	client := tikv.Open(tikv.Config{})
	t.Cleanup(client.Close)
	early, err := client.EarlyApply(within(t, 30*time.Second), at)
	require.NoError(t, err)
	require.Equal(t, tikv.EarlyApply{}, early)
	n, err := client.EarlyAppliers(within(t, 30*time.Second), at)
	require.NoError(t, err)
	require.Zero(t, n)
}

// A call whose caller gives up ends with the caller's error, and not as a closed port.
func TestEarlyApply_StoreIsSilent_EndsWithTheCaller(t *testing.T) {
	t.Parallel()
	came := make(chan struct{})
	at := serveStatus(t, func(_ http.ResponseWriter, r *http.Request) {
		close(came)
		<-r.Context().Done()
	})
	client := tikv.Open(tikv.Config{})
	t.Cleanup(client.Close)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-came; cancel() }()
	_, err := client.EarlyAppliers(ctx, at)
	require.ErrorIs(t, err, context.Canceled)
}

// The status port is reached as the store's own port is: by the way to the cluster, with its TLS, which may be known late,
// and the name that PD knows.
func TestEarlyApply_FromOutsideWithTLS_IsReachedAsTheStoreIs(t *testing.T) {
	t.Parallel()
	const name = "prod-tikv-0.prod-tikv-peer.tidb.svc"
	cert, roots := certificate(t, name)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"raftstore":{"max-apply-unpersisted-log-limit":1024}}`))
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	at := server.Listener.Addr().String()
	m, err := cluster.ParseAddressMap([]string{name + ":20180=" + at, "other.svc:20180=" + at})
	require.NoError(t, err)
	var dialled atomic.Int64
	route := reach.New(reach.Config{Map: m})
	client := tikv.Open(tikv.Config{
		LateTLS: func() *tls.Config { return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12} },
		Reach: func(ctx context.Context, address string) (net.Conn, error) {
			dialled.Add(1)
			return route.Dial(ctx, address)
		},
	})
	t.Cleanup(client.Close)
	early, err := client.EarlyApply(within(t, 30*time.Second), name+":20180")
	require.NoError(t, err)
	require.Equal(t, uint64(1024), early.Limit)
	require.Equal(t, int64(1), dialled.Load())
	_, err = client.EarlyApply(within(t, 30*time.Second), "other.svc:20180")
	require.Equal(t, failure.Denied, failure.KindOf(err), "a server that cannot prove its name: %v", err)
}

func TestEarlyApply_ClientClosed_IsRefused(t *testing.T) {
	t.Parallel()
	client := tikv.Open(tikv.Config{})
	client.Close()
	_, err := client.EarlyApply(t.Context(), "127.0.0.1:1")
	require.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
}

func serveStatus(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}
