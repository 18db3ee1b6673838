package pdtest

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// preface is how every HTTP/2 connection, and so every gRPC one, starts. No HTTP/1 method is "PRI".
const preface = "PRI * HTTP/2.0"

// splitter accepts connections and hands them to gRPC or HTTP by their first bytes, as PD does on one port.
type splitter struct {
	ln       net.Listener
	rpc, web *handedListener
	done     chan struct{}
	once     sync.Once
	mu       sync.Mutex
	waiting  map[net.Conn]struct{} // accepted but not yet recognised
	wg       sync.WaitGroup
}

func newSplitter(ln net.Listener) *splitter {
	done := make(chan struct{})
	return &splitter{
		ln: ln, done: done, waiting: map[net.Conn]struct{}{},
		rpc: &handedListener{addr: ln.Addr(), conns: make(chan net.Conn), done: done},
		web: &handedListener{addr: ln.Addr(), conns: make(chan net.Conn), done: done},
	}
}

// run accepts until close, then waits for the connections that are being recognised.
func (s *splitter) run() {
	defer s.wg.Wait()
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			s.close()
			return
		}
		if !s.track(conn) {
			_ = conn.Close()
			return
		}
		s.wg.Add(1)
		go func() { defer s.wg.Done(); s.hand(conn) }()
	}
}

func (s *splitter) track(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		return false
	}
	s.waiting[conn] = struct{}{}
	return true
}

func (s *splitter) hand(conn net.Conn) {
	// A silent client must not keep a goroutine for ever.
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	r := bufio.NewReader(conn)
	head, err := r.Peek(4)
	to := s.web
	if err == nil && string(head) == preface[:4] {
		if head, err = r.Peek(len(preface)); err == nil && string(head) == preface {
			to = s.rpc
		}
	}
	s.mu.Lock()
	delete(s.waiting, conn)
	s.mu.Unlock()
	if err != nil {
		_ = conn.Close()
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	select {
	case to.conns <- &peekedConn{Conn: conn, r: r}:
	case <-s.done:
		_ = conn.Close()
	}
}

func (s *splitter) close() {
	s.once.Do(func() {
		close(s.done)
		_ = s.ln.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		for conn := range s.waiting {
			_ = conn.Close()
		}
		s.waiting = nil
	})
}

// handedListener is a net.Listener that is fed by a splitter.
type handedListener struct {
	addr  net.Addr
	conns chan net.Conn
	done  chan struct{}
}

// Accept waits for a connection or the splitter's end.
func (l *handedListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the splitter owns the port.
func (l *handedListener) Close() error { return nil }

// Addr is the port's address.
func (l *handedListener) Addr() net.Addr { return l.addr }

// peekedConn reads what was peeked first.
type peekedConn struct {
	net.Conn
	r *bufio.Reader
}

// Read reads through the buffer that holds the first bytes.
func (c *peekedConn) Read(p []byte) (int, error) { return c.r.Read(p) }
