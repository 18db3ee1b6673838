package forward

import (
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/tisnap/tisnap/pkg/failure"
)

// forwardedConn is the near end of a dial through a tunnel. As a pipe, it supports deadlines, and Close never waits for
// the network.
type forwardedConn struct {
	net.Conn
	address forwardAddr
	why     atomic.Pointer[string] // it ended, if known
}

func (c *forwardedConn) fail(why string) {
	if why != "" {
		c.why.Store(&why)
	}
}

// Read reads; if the forward itself ended the connection, the error is the reason.
func (c *forwardedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if why := c.why.Load(); why != nil && errors.Is(err, io.EOF) {
		return n, failure.New(failure.Limited, "forward ports", string(c.address), "%s", *why)
	}
	return n, err
}

// RemoteAddr is the address that was dialled.
func (c *forwardedConn) RemoteAddr() net.Addr { return c.address }

// forwardAddr is an address reached through a port forward.
type forwardAddr string

// Network returns "port-forward".
func (forwardAddr) Network() string { return "port-forward" }

// String returns the address inside the cluster.
func (a forwardAddr) String() string { return string(a) }
