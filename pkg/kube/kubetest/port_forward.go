package kubetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"

	"github.com/moby/spdystream"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// forwarding is a port-forward connection to a pod: to its sandbox in the container runtime, and not to the pod that
// takes its name later.
type forwarding struct {
	server         *Server
	namespace, pod string
	uid            string
	conn           net.Conn
	spdy           *spdystream.Connection
	copies         sync.WaitGroup

	mu    sync.Mutex
	pairs map[string]*streamPair // by request id
	open  map[net.Conn]bool      // to the pod's processes
}

// streamPair is a connection's streams, of which the error stream comes first.
type streamPair struct{ data, failed *spdystream.Stream }

// forward upgrades the connection and serves it until it breaks: SPDY over a POST, as by every API server since 1.5, or in a
// WebSocket, as since 1.30.
func (s *Server) forward(w http.ResponseWriter, c call) {
	pod, exists := typed[corev1.Pod](s.store, pods, c.namespace, c.name)
	if !exists {
		writeError(w, apierrors.NewNotFound(c.resource.groupResource(), c.name))
		return
	}
	if pod.Spec.NodeName == "" {
		writeError(w, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", c.name)))
		return
	}
	conn, err := s.upgrade(w, c)
	if err != nil {
		writeError(w, err)
		return
	}
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	f := &forwarding{
		server: s, namespace: c.namespace, pod: c.name, uid: string(pod.UID), conn: conn,
		pairs: map[string]*streamPair{}, open: map[net.Conn]bool{},
	}
	f.serve(c.http.Context())
}

// BreakForwards breaks all port forwards, as the end of an API server does.
func (s *Server) BreakForwards() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.forwards {
		_ = f.conn.Close()
	}
}

// Forwards is how many port-forward connections are open.
func (s *Server) Forwards() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.forwards)
}

func (f *forwarding) serve(ctx context.Context) {
	spdy, err := spdystream.NewConnection(f.conn, true)
	if err != nil {
		return
	}
	f.spdy = spdy
	f.note(true)
	defer f.note(false)
	ctx, stop := context.WithCancel(ctx)
	defer context.AfterFunc(ctx, func() { _ = f.conn.Close() })()
	spdy.Serve(func(stream *spdystream.Stream) { f.take(ctx, stream) })
	stop()
	f.mu.Lock()
	for conn := range f.open {
		_ = conn.Close()
	}
	f.mu.Unlock()
	f.copies.Wait()
}

func (f *forwarding) note(open bool) {
	f.server.mu.Lock()
	defer f.server.mu.Unlock()
	if open {
		f.server.forwards[f] = true
	} else {
		delete(f.server.forwards, f)
	}
}

// take accepts a stream, and begins to forward when both of a connection are there.
func (f *forwarding) take(ctx context.Context, stream *spdystream.Stream) {
	headers := stream.Headers()
	id := headers.Get(corev1.PortForwardRequestIDHeader)
	port, err := strconv.ParseUint(headers.Get(corev1.PortHeader), 10, 16)
	if err != nil || id == "" {
		_ = stream.Refuse()
		return
	}
	f.mu.Lock()
	pair := f.pairs[id]
	if pair == nil {
		pair = &streamPair{}
		f.pairs[id] = pair
	}
	if headers.Get(corev1.StreamType) == corev1.StreamTypeError {
		pair.failed = stream
	} else {
		pair.data = stream
	}
	both := pair.data != nil && pair.failed != nil && ctx.Err() == nil
	if both {
		delete(f.pairs, id)
		f.copies.Add(1)
	}
	f.mu.Unlock()
	_ = stream.SendReply(http.Header{}, false)
	if !both {
		return
	}
	go func() { // what handles streams must not wait
		defer f.copies.Done()
		if err := f.join(ctx, pair, int(port)); err != nil { //nolint:gosec // parsed with 16 bits
			_, _ = fmt.Fprintf(pair.failed, "error forwarding port %d to pod %s, uid : %v", port, f.uid, err)
		}
		for _, stream := range []*spdystream.Stream{pair.data, pair.failed} {
			_ = stream.Close()
			_ = stream.Reset() // or what the client still sends blocks the whole connection
		}
	}()
}

// join copies between a stream and a process of the pod. Its error is that there is none.
func (f *forwarding) join(ctx context.Context, pair *streamPair, port int) error {
	if now := f.server.Get(pods, f.namespace, f.pod); now == nil || string(now.GetUID()) != f.uid {
		return fmt.Errorf("network namespace for sandbox %q is closed", f.uid)
	}
	refused := errors.New("no process listens")
	if f.server.cfg.Connect == nil {
		return refused
	}
	conn, err := f.server.cfg.Connect(ctx, f.namespace, f.pod, port)
	if err != nil {
		return fmt.Errorf("failed to execute portforward in network namespace: failed to connect to localhost:%d inside namespace: %w", port, err)
	}
	f.mu.Lock()
	f.open[conn] = true
	f.mu.Unlock()
	ended := make(chan struct{})
	f.copies.Go(func() {
		defer close(ended)
		_, _ = io.Copy(conn, pair.data)
		_ = conn.Close()
	})
	_, _ = io.Copy(pair.data, conn)
	_ = conn.Close()
	_ = pair.data.Close()
	_ = pair.data.Reset() // ends what reads it
	<-ended
	f.mu.Lock()
	delete(f.open, conn)
	f.mu.Unlock()
	return nil
}
