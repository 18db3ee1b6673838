package reach_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/reach"
)

// outside is a name that no DNS server knows.
const outside = "prod-pd.tidb.svc.invalid:2379"

// listen is the address of a listener that takes connections.
func listen(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// route is one whose forwards are counted, and where all addresses are of the cluster.
func route(t *testing.T, via reach.Via, entries ...string) (r *reach.Route, forwards, notified *atomic.Int32) {
	t.Helper()
	forwards, notified = &atomic.Int32{}, &atomic.Int32{}
	m, err := cluster.ParseAddressMap(entries)
	require.NoError(t, err)
	return reach.New(reach.Config{
		Via: via, Map: m,
		Forward: func(context.Context, string) (net.Conn, error) {
			forwards.Add(1)
			near, far := net.Pipe()
			return near, far.Close()
		},
		Inside:    func(address string) bool { return !strings.HasPrefix(address, "outer") },
		OnForward: func(error) { notified.Add(1) },
	}), forwards, notified
}

func TestRoute_Auto_FirstAddressDecides(t *testing.T) {
	t.Parallel()
	r, forwards, notified := route(t, reach.Auto)
	for range 2 {
		conn, err := r.Dial(t.Context(), outside)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	assert.True(t, r.WillForward(t.Context(), "localhost"))
	assert.EqualValues(t, 2, forwards.Load())
	assert.EqualValues(t, 1, notified.Load())

	r, forwards, notified = route(t, reach.Auto)
	conn, err := r.Dial(t.Context(), listen(t))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	assert.False(t, r.WillForward(t.Context(), "localhost"))
	_, err = r.Dial(t.Context(), outside)
	var dns *net.DNSError
	require.ErrorAs(t, err, &dns, "a store whose pod restarts is not a reason to forward")
	assert.Zero(t, forwards.Load()+notified.Load())
}

func TestRoute_Auto_RefusedOrCancelled_DecidesNothing(t *testing.T) {
	t.Parallel()
	r, forwards, _ := route(t, reach.Auto)
	_, err := r.Dial(t.Context(), "127.0.0.1:1")
	require.ErrorContains(t, err, "refused")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = r.Dial(ctx, outside)
	require.Error(t, err)
	assert.False(t, r.WillForward(t.Context(), "localhost"))
	assert.Zero(t, forwards.Load())
}

func TestRoute_MappedAndForeignAddresses_AreDialledDirectly(t *testing.T) {
	t.Parallel()
	at := listen(t)
	r, forwards, _ := route(t, reach.PortForward, outside+"="+at, "outer:1="+at)
	for _, address := range []string{outside, "outer:1"} {
		conn, err := r.Dial(t.Context(), address)
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	assert.Zero(t, forwards.Load())
	conn, err := r.Dial(t.Context(), at)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	assert.EqualValues(t, 1, forwards.Load(), "asked for, it goes before the network")
}

func TestRoute_NoForwarder(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	inside := func(string) bool { return true }
	_, err := reach.New(reach.Config{Via: reach.PortForward, Inside: inside}).Dial(t.Context(), outside)
	assert.Equal(t, failure.Usage, failure.KindOf(err), "%v", err)
	for _, via := range []reach.Via{"", reach.Direct, reach.Auto} {
		t.Run(string(via), func(t *testing.T) {
			_, err := reach.New(reach.Config{Via: via, Inside: inside}).Dial(t.Context(), outside)
			var dns *net.DNSError
			require.ErrorAs(t, err, &dns)
		})
	}
}

func TestParseVia(t *testing.T) { //nolint:tparallel // each case is one call
	t.Parallel()
	for _, way := range reach.Ways() {
		t.Run(way, func(t *testing.T) {
			via, err := reach.ParseVia(way)
			require.NoError(t, err)
			assert.Equal(t, reach.Via(way), via)
		})
	}
	_, err := reach.ParseVia("tunnel")
	assert.Equal(t, failure.Usage, failure.KindOf(err))
}

// Before an address was dialled, a name predicts which way Auto will take; nothing is decided by that.
func TestRoute_WillForward(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		via     reach.Via
		entries []string
		name    string
		want    bool
	}{
		"auto, names resolve":          {reach.Auto, nil, "localhost", false},
		"auto, names do not":           {reach.Auto, nil, "kubernetes.default.svc.invalid", true},
		"auto, the user has addresses": {reach.Auto, []string{outside + "=127.0.0.1"}, "kubernetes.default.svc.invalid", false},
		"direct":                       {reach.Direct, nil, "kubernetes.default.svc.invalid", false},
		"port-forward":                 {reach.PortForward, nil, "localhost", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, forwards, notified := route(t, c.via, c.entries...)
			assert.Equal(t, c.want, r.WillForward(t.Context(), c.name))
			assert.Zero(t, forwards.Load()+notified.Load())
			if c.via == reach.Auto {
				conn, err := r.Dial(t.Context(), listen(t))
				require.NoError(t, err)
				require.NoError(t, conn.Close())
				assert.False(t, r.WillForward(t.Context(), c.name), "an address was reached directly")
			}
		})
	}
}
