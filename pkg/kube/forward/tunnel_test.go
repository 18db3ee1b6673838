package forward

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/moby/spdystream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Something in between swallows what is sent, and nothing reports that the connection is gone: the ping detects it.
func TestTunnel_NothingComesBack_IsClosedByThePing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		begin := time.Now()
		tunnel, err := openTunnel(near, func(time.Duration) { assert.Fail(t, "a round trip") })
		require.NoError(t, err)
		require.True(t, tunnel.usable())
		<-tunnel.spdy.CloseChan()
		assert.Equal(t, pingTimeout, time.Since(begin))
		assert.False(t, tunnel.usable())
		_, err = tunnel.dial(t.Context(), "prod-tikv-0.prod-tikv-peer.tidb.svc:20160", 20160)
		require.Error(t, err)
		tunnel.close()
		require.NoError(t, far.Close())
	})
}

// A tunnel through which nothing is sent lives as long as pings come back.
func TestTunnel_Silent_IsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		server, err := spdystream.NewConnection(far, true)
		require.NoError(t, err)
		var served sync.WaitGroup
		served.Go(func() { server.Serve(spdystream.NoOpStreamHandler) })
		var trips atomic.Int32
		tunnel, err := openTunnel(near, func(time.Duration) { trips.Add(1) })
		require.NoError(t, err)
		<-time.After(10*time.Minute + time.Second) // in the bubble's time
		assert.True(t, tunnel.usable())
		assert.EqualValues(t, 1+10*time.Minute/pingInterval, trips.Load())
		tunnel.close()
		require.NoError(t, far.Close())
		served.Wait()
	})
}
