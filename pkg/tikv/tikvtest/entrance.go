package tikvtest

import (
	"net"
	"sync/atomic"
)

// entrance hangs up on everybody until it is open.
type entrance struct {
	net.Listener
	open atomic.Bool
}

// Accept implements net.Listener.
func (e *entrance) Accept() (net.Conn, error) {
	for {
		conn, err := e.Listener.Accept()
		if err != nil || e.open.Load() {
			return conn, err
		}
		_ = conn.Close()
	}
}

// serve prepares the gRPC service; open lets clients in. Before that those of a store without TLS wait for their first
// answer, and those of one with TLS are hung up on.
func (s *Store) serve() (open func()) {
	run := func() { s.goRun(func() { _ = s.server.Serve(s.listener) }) }
	if e, guarded := s.listener.(*entrance); guarded {
		run()
		return func() { e.open.Store(true) }
	}
	return run
}
