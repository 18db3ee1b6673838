package reach

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// Dial connects to PD or a store by its host:port in the cluster.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// Via is the way to addresses of the cluster.
type Via string

// The ways.
const (
	// Auto is Direct, or PortForward if an address of the cluster cannot be reached directly.
	Auto        Via = "auto"
	Direct      Via = "direct"
	PortForward Via = "port-forward"
)

// Ways lists the values of Via, the default first.
func Ways() []string { return []string{string(Auto), string(Direct), string(PortForward)} }

// ParseVia parses a Via; anything else is a Usage error.
func ParseVia(text string) (Via, error) {
	if !slices.Contains(Ways(), text) {
		return "", failure.New(failure.Usage, "read --via", text, "want one of %s", strings.Join(Ways(), ", "))
	}
	return Via(text), nil
}

const (
	// dialTimeout bounds a direct connection, probeTimeout Auto's first one.
	dialTimeout  = 5 * time.Second
	probeTimeout = 2 * time.Second
)

// Config of a Route. The zero value is direct.
type Config struct {
	Via Via // "" is Direct
	// Map has addresses that are always dialled directly, elsewhere.
	Map cluster.AddressMap
	// Forward connects through the API server. If nil, Auto is Direct and PortForward fails.
	Forward Dial
	// Inside recognizes addresses that a forward can reach. All others are dialled directly.
	Inside func(address string) bool
	// OnForward is called once, with the reason, if Auto has to forward.
	OnForward func(why error)
}

// Route dials by one Via. It is safe for concurrent use.
type Route struct {
	cfg    Config
	direct net.Dialer

	mu      sync.Mutex
	decided Via // Auto until an address was tried
}

// New makes a route. It makes no connections.
func New(cfg Config) *Route {
	r := &Route{cfg: cfg, direct: net.Dialer{Timeout: dialTimeout}, decided: cfg.Via}
	if cfg.Via == "" || cfg.Via == Auto && cfg.Forward == nil {
		r.decided = Direct
	}
	return r
}

// WillForward reports whether addresses of the cluster are reached through the API server, even before the first dial:
// an undecided Auto will forward if a name of the cluster, not necessarily PD's, does not resolve here. It does not
// decide.
func (r *Route) WillForward(ctx context.Context, name string) bool {
	r.mu.Lock()
	decided := r.decided
	r.mu.Unlock()
	if decided != Auto || r.cfg.Map.Len() > 0 {
		return decided == PortForward
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, err := net.DefaultResolver.LookupHost(ctx, name)
	return err != nil
}

// Dial connects to an address. The first dial of a cluster address decides Auto.
func (r *Route) Dial(ctx context.Context, address string) (net.Conn, error) {
	at := r.cfg.Map.Dial(address)
	if at != address || r.cfg.Inside == nil || !r.cfg.Inside(address) {
		return r.direct.DialContext(ctx, "tcp", at)
	}
	via, conn, err := r.decide(ctx, address)
	switch {
	case conn != nil || err != nil:
		return conn, err
	case via == PortForward && r.cfg.Forward == nil:
		return nil, failure.New(failure.Usage, "forward ports", address, "there is no API server to do it")
	case via == PortForward:
		conn, err := r.cfg.Forward(ctx, address)
		if err != nil { // like any dial's: nothing was sent
			return nil, &net.OpError{Op: "dial", Net: string(PortForward), Err: err}
		}
		return conn, nil
	}
	return r.direct.DialContext(ctx, "tcp", at)
}

// decide returns the Via, and the connection, or its error, that it needed to find out.
func (r *Route) decide(ctx context.Context, address string) (Via, net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.decided != Auto {
		return r.decided, nil, nil
	}
	probe, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := r.direct.DialContext(probe, "tcp", address)
	if err == nil {
		r.decided = Direct
		return Direct, conn, nil
	}
	if ctx.Err() != nil || !unreachable(err) {
		return Auto, nil, err
	}
	r.decided = PortForward
	if r.cfg.OnForward != nil {
		r.cfg.OnForward(err)
	}
	return PortForward, nil, nil
}

// unreachable reports whether an address cannot be reached from here: its name does not resolve, or no packet comes
// back. A refusal comes from the pod itself.
func unreachable(err error) bool {
	var dns *net.DNSError
	var network net.Error
	return errors.As(err, &dns) || errors.As(err, &network) && network.Timeout() || noRoute(err)
}
