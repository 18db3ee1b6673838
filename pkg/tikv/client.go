package tikv

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/reach"
	"github.com/tisnap/tisnap/pkg/tracing/grpctrace"
)

const (
	defaultKeepaliveTime = 30 * time.Second
	// A store that elects thousands of leaders or deletes much data leaves pings unanswered for a minute
	// and then continues; br failed on such stores with "keepalive watchdog timeout".
	defaultKeepaliveTimeout = 5 * time.Minute
	defaultConnectTimeout   = 5 * time.Second
	// A restarting store is retried at least this often.
	maxReconnectDelay = 2 * time.Second
)

// Config is how to connect to stores. The zero value is plaintext with tolerant keepalives.
type Config struct {
	// TLS is the client's side of TLS; nil is plaintext.
	TLS *tls.Config
	// LateTLS, if not nil, replaces TLS and is called at the first connection to each store: a restore makes its
	// client before the cluster and its certificate exist.
	LateTLS func() *tls.Config
	// KeepaliveTime is how long a connection is idle before it is pinged; 0 is 30 s.
	KeepaliveTime time.Duration
	// KeepaliveTimeout is how long a ping may stay unanswered before the connection counts as dead; 0 is
	// 5 min, because a busy store is slow to answer. A closed connection is noticed at once.
	KeepaliveTimeout time.Duration
	// ConnectTimeout is how long one attempt to connect may take; 0 is 5 s.
	ConnectTimeout time.Duration
	// Reach connects to a store's address; nil dials directly. TLS runs on top of it and verifies the name in the
	// address.
	Reach reach.Dial
	// Tracing adds a span per call.
	Tracing bool
}

// withDefaults fills the zero values.
func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&c.KeepaliveTime, defaultKeepaliveTime},
		{&c.KeepaliveTimeout, defaultKeepaliveTimeout},
		{&c.ConnectTimeout, defaultConnectTimeout},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if c.LateTLS == nil {
		c.LateTLS = func() *tls.Config { return c.TLS }
	}
	if c.Reach == nil {
		c.Reach = reach.New(reach.Config{}).Dial
	}
	return c
}

// Client talks to stores by address, over one kept connection per store that reconnects on its own. It is safe for
// concurrent use.
type Client struct {
	options []grpc.DialOption
	tls     func() *tls.Config
	http    *http.Client // for status ports

	mu        sync.Mutex
	conns     map[string]*grpc.ClientConn
	streams   map[string]*batchStream // by address
	streaming sync.WaitGroup
	closed    bool
}

var (
	_ Holder      = (*Client)(nil)
	_ Recoverer   = (*Client)(nil)
	_ Flashbacker = (*Client)(nil)
	_ Marker      = (*Client)(nil)
)

// Open makes a client. It connects to a store at the first call to it.
func Open(cfg Config) *Client {
	cfg = cfg.withDefaults()
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay, reconnect.MaxDelay = 100*time.Millisecond, maxReconnectDelay
	c := &Client{
		conns: map[string]*grpc.ClientConn{}, streams: map[string]*batchStream{},
		tls: cfg.LateTLS, http: newStatusClient(cfg.Reach, cfg.LateTLS),
		options: []grpc.DialOption{
			grpc.WithNoProxy(), // stores are inside the cluster
			grpc.WithDisableServiceConfig(),
			grpc.WithContextDialer(cfg.Reach),
			grpc.WithKeepaliveParams(
				keepalive.ClientParameters{Time: cfg.KeepaliveTime, Timeout: cfg.KeepaliveTimeout}),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: cfg.ConnectTimeout}),
		},
	}
	c.options = append(c.options, askFirst()...)
	if cfg.Tracing {
		c.options = append(c.options, grpc.WithStatsHandler(grpctrace.Handler{}))
	}
	return c
}

// Close closes all connections; calls and leases in progress end with an error. It may be called again.
func (c *Client) Close() {
	c.mu.Lock()
	conns := c.conns
	c.conns, c.closed = nil, true
	c.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close() // its only error is that it is closed
	}
	c.streaming.Wait()
	c.http.CloseIdleConnections()
}

func (c *Client) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// connection returns the store's connection, which may not be up yet.
func (c *Client) connection(address string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, failure.New(failure.Usage, "connect", target(address), "the client is closed")
	}
	if conn, ok := c.conns[address]; ok {
		return conn, nil
	}
	// passthrough looks the name up at each attempt: a restarted pod has another IP, and gRPC's own resolver would
	// keep the old one for half a minute.
	creds := insecure.NewCredentials()
	if cfg := c.tls(); cfg != nil {
		creds = credentials.NewTLS(cfg)
	}
	conn, err := grpc.NewClient("passthrough:///"+address,
		append(slices.Clone(c.options), grpc.WithTransportCredentials(creds))...)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, "connect", target(address))
	}
	c.conns[address] = conn
	return conn, nil
}

func target(address string) string { return "store at " + address }

// interrupted returns ctx's error as a failure, or nil while ctx lives. gRPC hides it in a status.
func interrupted(ctx context.Context, op, what string) error {
	if ctx.Err() == nil {
		return nil
	}
	return failure.Annotate(context.Cause(ctx), op, what)
}
