package forward

import (
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/tisnap/tisnap/pkg/failure"
)

// forwardedConn is the near end of a dial through a tunnel. Being a pipe, it keeps deadlines, and its Close never waits
// for the network.
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

// Read reads; at an end that the forward itself caused, the error says why.
func (c *forwardedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if why := c.why.Load(); why != nil && errors.Is(err, io.EOF) {
		return n, failure.New(failure.Limited, "forward ports", string(c.address), "%s", *why)
	}
	return n, err
}

// RemoteAddr is the address that was dialled.
func (c *forwardedConn) RemoteAddr() net.Addr { return c.address }

// forwardAddr is an address that is reached by a port forward.
type forwardAddr string

// Network names the way.
func (forwardAddr) Network() string { return "port-forward" }

// String is the address as the cluster knows it.
func (a forwardAddr) String() string { return string(a) }
