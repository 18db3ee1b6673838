package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/spdystream"
	corev1 "k8s.io/api/core/v1"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

const (
	// pingInterval keeps load balancers from closing an idle tunnel (EKS's endpoint after 350 s), and pingTimeout is
	// when an unresponsive one counts as dead: well before a hold's lease expires.
	pingInterval = 5 * time.Second
	pingTimeout  = 10 * time.Second
	// maxForwardError bounds the text of a forward's error, and forwardErrorWait how long after the end of the data it
	// may arrive.
	maxForwardError  = 4 << 10
	forwardErrorWait = time.Second
	// answerInterval is how often a call that waits for an answer checks that the tunnel is still open.
	answerInterval = 100 * time.Millisecond
)

// tunnel is a SPDY connection to one pod, through the API server and the pod's kubelet. Each dial is a pair of its
// streams.
type tunnel struct {
	conn  net.Conn
	spdy  *spdystream.Connection
	next  atomic.Int64
	stale atomic.Bool // a forward failed: the pod may have been recreated, and the tunnel lead to the old one
	alive sync.WaitGroup

	mu      sync.Mutex
	users   int  // open dials
	retired bool // replaced by another tunnel
	closed  bool
}

// openTunnel starts a tunnel's goroutines; close ends them. trip is called with the time of each round trip.
func openTunnel(conn net.Conn, trip func(time.Duration)) (*tunnel, error) {
	spdy, err := spdystream.NewConnection(conn, false)
	if err != nil {
		_ = conn.Close()
		return nil, failure.Wrap(err, failure.Unknown, "forward ports", "")
	}
	t := &tunnel{conn: conn, spdy: spdy}
	ctx, stop := context.WithCancel(context.Background())
	t.alive.Go(func() {
		defer stop()
		spdy.Serve(spdystream.NoOpStreamHandler)
		_ = conn.Close() // it is broken, or the other side closed it
	})
	t.alive.Go(func() { t.ping(ctx, trip) })
	return t, nil
}

// ping measures round trips to the pod's node, and closes a tunnel that does not answer.
func (t *tunnel) ping(ctx context.Context, trip func(time.Duration)) {
	for {
		dead := time.AfterFunc(pingTimeout, func() { _ = t.conn.Close() })
		took, err := t.spdy.Ping()
		dead.Stop()
		if err != nil {
			_ = t.conn.Close()
			return
		}
		trip(took)
		if wait.For(ctx, pingInterval) != nil {
			return
		}
	}
}

// usable reports whether to dial through the tunnel.
func (t *tunnel) usable() bool { return t.open() && !t.stale.Load() }

func (t *tunnel) open() bool {
	select {
	case <-t.spdy.CloseChan():
		return false
	default:
		return true
	}
}

// close breaks the tunnel's connections and waits for its goroutines.
func (t *tunnel) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	_ = t.conn.Close() // it may be broken already
	t.alive.Wait()
}

// retire makes the tunnel close with its last connection; it returns true if there is none.
func (t *tunnel) retire() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retired = true
	return t.users == 0
}

// enter counts a connection, unless the tunnel is closed.
func (t *tunnel) enter() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.users++
	t.alive.Add(1)
	return true
}

func (t *tunnel) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users--; t.users == 0 && t.retired {
		_ = t.conn.Close()
	}
	t.alive.Done()
}

// dial opens a connection to a port of the pod. If nothing listens there, the first read fails.
func (t *tunnel) dial(ctx context.Context, address string, port uint16) (net.Conn, error) {
	if !t.enter() {
		return nil, net.ErrClosed
	}
	data, failed, err := t.pair(ctx, port)
	if err != nil {
		t.leave()
		return nil, err
	}
	near, far := net.Pipe()
	c := &forwardedConn{Conn: near, address: forwardAddr(address)}
	t.alive.Go(func() {
		defer t.leave()
		t.join(c, far, data, failed)
	})
	return c, nil
}

// pair opens the two streams of a connection: one for data, one for its error.
func (t *tunnel) pair(ctx context.Context, port uint16) (data, failed *spdystream.Stream, err error) {
	headers := func(kind string, id int64) http.Header {
		h := http.Header{}
		h.Set(corev1.StreamType, kind)
		h.Set(corev1.PortHeader, strconv.Itoa(int(port)))
		h.Set(corev1.PortForwardRequestIDHeader, strconv.FormatInt(id, 10))
		return h
	}
	id := t.next.Add(1)
	if failed, err = t.stream(ctx, headers(corev1.StreamTypeError, id)); err != nil {
		return nil, nil, err
	}
	_ = failed.Close() // never written to; a broken tunnel shows up in data
	if data, err = t.stream(ctx, headers(corev1.StreamTypeData, id)); err != nil {
		_ = failed.Reset()
		return nil, nil, err
	}
	return data, failed, nil
}

// stream opens one stream and waits until the other side has accepted it.
func (t *tunnel) stream(ctx context.Context, headers http.Header) (*spdystream.Stream, error) {
	s, err := t.spdy.CreateStream(headers, nil, false)
	if err != nil {
		return nil, err
	}
	accepted := make(chan error, 1)
	t.alive.Go(func() { accepted <- t.accepted(s) })
	select {
	case err = <-accepted:
	case <-t.spdy.CloseChan():
		err = io.ErrUnexpectedEOF
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		_ = s.Reset()
		return nil, err
	}
	return s, nil
}

// accepted waits until the other side accepts a stream. spdystream blocks if nothing waits, and reports no broken
// connection.
func (t *tunnel) accepted(s *spdystream.Stream) error {
	for {
		err := s.WaitTimeout(answerInterval)
		if !errors.Is(err, spdystream.ErrTimeout) {
			return err
		}
		select {
		case <-t.spdy.CloseChan():
			return io.ErrUnexpectedEOF
		default:
		}
	}
}

// join copies both ways until one side is done or the forward failed.
func (t *tunnel) join(c *forwardedConn, far net.Conn, data, failed *spdystream.Stream) {
	var copies sync.WaitGroup
	why := make(chan string, 1)
	copies.Go(func() {
		text, _ := io.ReadAll(io.LimitReader(failed, maxForwardError))
		if len(text) > 0 {
			t.stale.Store(true)
		}
		why <- string(text)
	})
	copies.Go(func() {
		_, _ = io.Copy(far, data)
		timer := time.NewTimer(forwardErrorWait)
		defer timer.Stop()
		var text string
		select {
		case text = <-why:
		case <-t.spdy.CloseChan():
		case <-timer.C:
		}
		if text == "" && !t.open() {
			text = "the port forward broke"
		}
		c.fail(text)
		_ = far.Close()
		_ = failed.Reset()
	})
	_, _ = io.Copy(data, far)
	_ = data.Reset()
	_ = far.Close()
	copies.Wait()
}
