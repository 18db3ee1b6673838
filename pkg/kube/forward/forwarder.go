package forward

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"k8s.io/client-go/rest"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
	"github.com/tisnap/tisnap/pkg/kube/typed"
)

// Config is how a forwarder connects to the API server.
type Config struct {
	Core *typed.Client
	// Upgrades sends requests that upgrade their connection. It must use HTTP/1.1: HTTP/2 has no upgrades.
	Upgrades http.RoundTripper
	// REST is for WebSockets, which Upgrades does not support.
	REST *rest.Config
}

// Forwarder connects to ports of pods through the API server, like kubectl port-forward but without a local port. It
// keeps one connection to the API server per pod for all dials, and reopens it if it breaks. It is safe for concurrent
// use.
type Forwarder struct {
	cfg       Config
	times     forwardTimes
	webSocket atomic.Bool // SPDY is blocked

	life context.Context //nolint:containedctx // its end cancels openings in progress
	end  context.CancelFunc

	openings sync.WaitGroup

	mu      sync.Mutex
	pods    map[types.NamespacedName]*podTunnel
	tunnels map[*tunnel]bool // all that were opened and not closed
}

// openTimeout bounds opening a tunnel: a TLS handshake with the API server, and its connection to the pod's kubelet.
const openTimeout = 15 * time.Second

// podTunnel holds a pod's tunnel.
type podTunnel struct {
	opening chan struct{} // a lock with context: full while a tunnel is looked up or opened
	now     *tunnel       // nil before the first dial
}

var errForwarderClosed = failure.New(failure.Usage, "forward ports", "", "the forwarder is closed")

// New makes a forwarder without contacting the server. Close ends it.
func New(cfg Config) *Forwarder {
	f := &Forwarder{cfg: cfg, pods: map[types.NamespacedName]*podTunnel{}, tunnels: map[*tunnel]bool{}}
	f.life, f.end = context.WithCancel(context.Background())
	return f
}

// Dial connects to a host:port of a pod or service in the cluster. ctx bounds the dial, not the connection. If nothing
// listens on the port, the first Read fails. Kinds: Usage for an address that IsClusterAddress rejects, NotFound if
// there is no such pod, Denied without the verb create on pods/portforward, else Limited or Unknown.
func (f *Forwarder) Dial(ctx context.Context, address string) (net.Conn, error) {
	const op = "forward ports"
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, op, address)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, op, address)
	}
	pod, err := f.podAt(ctx, host)
	if err != nil {
		return nil, err
	}
	// A broken tunnel is noticed only by the next dial.
	for range 2 {
		var t *tunnel
		if t, err = f.tunnel(ctx, pod); err != nil {
			return nil, err
		}
		var conn net.Conn
		if conn, err = t.dial(ctx, address, uint16(port)); err == nil {
			return conn, nil
		}
		t.stale.Store(true)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, kubeerr.Wrap(err, op, address)
}

// tunnel returns the pod's tunnel, opening one if there is no usable one.
func (f *Forwarder) tunnel(ctx context.Context, pod types.NamespacedName) (*tunnel, error) {
	p := f.place(pod)
	select {
	case p.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, kubeerr.Wrap(context.Cause(ctx), opForward, pod.String())
	}
	if p.now != nil && p.now.usable() {
		defer func() { <-p.opening }()
		return p.now, nil
	}
	done := make(chan error, 1)
	var t *tunnel
	if !f.begin(func() {
		defer func() { <-p.opening }()
		var err error
		t, err = f.open(context.WithoutCancel(ctx), pod, p)
		done <- err
	}) {
		<-p.opening
		return nil, errForwarderClosed
	}
	select {
	case err := <-done:
		return t, err
	case <-ctx.Done():
		return nil, kubeerr.Wrap(context.Cause(ctx), opForward, pod.String())
	}
}

// open makes a tunnel and stores it in p. It has more time than a dial: a retried dial then finds the tunnel, whereas
// otherwise one through a slow network would never be opened.
func (f *Forwarder) open(ctx context.Context, pod types.NamespacedName, p *podTunnel) (*tunnel, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	defer context.AfterFunc(f.life, cancel)() //nolint:contextcheck // Close cancels it, too
	opened := f.times.open()
	conn, err := f.upgrade(ctx, pod)
	if err != nil {
		return nil, err
	}
	t, err := openTunnel(conn, f.times.trip) //nolint:contextcheck // a tunnel outlives the dial that opens it
	if err != nil {
		return nil, err
	}
	if err := f.keep(t); err != nil {
		t.close()
		return nil, err
	}
	if p.now != nil {
		f.retire(p.now)
	}
	opened(p.now != nil)
	p.now = t
	return t, nil
}

// begin runs background in a goroutine that Close waits for. It returns false if the forwarder is closed.
func (f *Forwarder) begin(background func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Err() != nil {
		return false
	}
	f.openings.Go(background)
	return true
}

func (f *Forwarder) place(pod types.NamespacedName) *podTunnel {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pods[pod]
	if p == nil {
		p = &podTunnel{opening: make(chan struct{}, 1)}
		f.pods[pod] = p
	}
	return p
}

// keep registers a tunnel for Close.
func (f *Forwarder) keep(t *tunnel) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.life.Err() != nil {
		return errForwarderClosed
	}
	f.tunnels[t] = true
	return nil
}

// retire closes a replaced tunnel, unless connections still use it.
func (f *Forwarder) retire(t *tunnel) {
	if !t.retire() {
		return
	}
	t.close()
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.tunnels, t)
}

// Close closes all connections and waits for the forwarder's goroutines. It may be called again.
func (f *Forwarder) Close() {
	f.end()
	f.mu.Lock()
	tunnels := f.tunnels
	f.tunnels = map[*tunnel]bool{}
	f.mu.Unlock()
	for t := range tunnels {
		t.close()
	}
	f.openings.Wait()
}
