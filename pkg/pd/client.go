package pd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/pingcap/log"
	pdclient "github.com/tikv/pd/client"
	"github.com/tikv/pd/client/opt"
	"github.com/tikv/pd/client/pkg/caller"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/reach"
	"github.com/tisnap/tisnap/pkg/tracing"
	"github.com/tisnap/tisnap/pkg/tracing/grpctrace"
)

// Config locates a PD cluster and describes how to connect to it.
type Config struct {
	Addresses []string    // client URLs or host:port, at least one; tried in turn
	TLS       *tls.Config // nil: plain text, or the system's roots if an address is https
	Logger    *zap.Logger // nil: none
	// Reach connects to a member's address; nil dials directly. TLS runs on top of it and verifies the name in the
	// address.
	Reach reach.Dial
}

// Client talks to one PD cluster. It implements Members, Scheduling, GC and Recovery and is safe for
// concurrent use. A call tries each address once and then gives up: callers retry, according to the error's kind.
type Client struct {
	rpc    pdclient.Client
	rest   *rest
	cancel context.CancelFunc
	log    *zap.Logger
	page   time.Duration // the limit of one page of regions; see pageTimeout
}

var (
	_ Members    = (*Client)(nil)
	_ Scheduling = (*Client)(nil)
	_ GC         = (*Client)(nil)
	_ Recovery   = (*Client)(nil)
	_ Operators  = (*Client)(nil)
)

const (
	// rpcTimeout bounds one gRPC call whose ctx has no deadline; it is pd/client's default.
	rpcTimeout  = 3 * time.Second
	dialTimeout = 3 * time.Second
	// pageTimeout bounds one page of regions, which takes PD milliseconds. pd/client bounds it only if its ctx has no
	// deadline, and that of a step may be hours away: a PD that does not answer would be waited for until then.
	pageTimeout = 10 * time.Second
	// openTries is how many times one round tries all addresses, a second apart.
	openTries = 3
	// openRounds is the number of rounds while PD still answers over HTTP: it is electing a leader or is overloaded.
	openRounds = 3
)

// quietOnce guards our only change to global state: pd/client logs to stdout through a global logger.
var quietOnce sync.Once

// Open finds the members and PD's leader. ctx bounds only Open itself; Close ends the client.
// An unreachable PD is Limited after about 3 s, or three times that if it answers over HTTP alone; addresses of
// different clusters are Conflict.
func Open(ctx context.Context, cfg Config) (*Client, error) {
	for round := 1; ; round++ {
		c, answers, err := connect(ctx, cfg)
		if err == nil || !answers || round == openRounds || ctx.Err() != nil || !failure.Is(err, failure.Limited) {
			return c, err
		}
	}
}

// connect is one round of Open. On failure it reports whether PD answers over HTTP.
func connect(ctx context.Context, cfg Config) (c *Client, answers bool, err error) {
	const op = "connect to pd"
	target := strings.Join(cfg.Addresses, ",")
	urls, tlsConfig, err := endpoints(cfg)
	if err != nil {
		return nil, false, err
	}
	dial := dialPlain(cfg.Reach)
	quietOnce.Do(func() { log.ReplaceGlobals(zap.NewNop(), &log.ZapProperties{Level: zap.NewAtomicLevel()}) })
	c = &Client{rest: newRest(urls, tlsConfig, dial), log: cfg.Logger, page: pageTimeout}
	if c.log == nil {
		c.log = zap.NewNop()
	}
	c.rest.log = c.log
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.cancel = cancel
	stop := context.AfterFunc(ctx, cancel)
	c.rpc, err = pdclient.NewClientWithContext(life, caller.Component("tisnap"), urls, pdclient.SecurityOption{},
		opt.WithEnableRouterClient(false), // PD 8.5 and older have no QueryRegion: region look-ups would hang
		opt.WithInitMetricsOption(false),  // would replace the global metrics while other clients write to them
		opt.WithCustomTimeoutOption(rpcTimeout),
		opt.WithMaxErrorRetry(openTries),
		opt.WithGRPCDialOptions(append(recorded(ctx),
			grpc.WithContextDialer(dialer(tlsConfig, dial)),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: dialTimeout}),
		)...))
	if err == nil && !stop() {
		c.rpc.Close()
		err = ctx.Err()
	}
	if err != nil {
		stop()
		cancel()
		answers, err = c.explain(ctx, err)
		c.rest.close()
		return nil, answers, translate(ctx, err, op, target)
	}
	return c, true, nil
}

// recorded adds a span per call if the run is traced.
func recorded(ctx context.Context) []grpc.DialOption {
	if !tracing.On(ctx) {
		return nil
	}
	return []grpc.DialOption{grpc.WithStatsHandler(grpctrace.Handler{})}
}

// explain asks over HTTP why connecting failed, and reports whether PD answered: pd/client gives no reason.
func (c *Client) explain(ctx context.Context, err error) (answers bool, why error) {
	if strings.Contains(err.Error(), "unmatched cluster id") {
		return true, err
	}
	if probeErr := c.rest.call(ctx, http.MethodGet, apiPrefix+"/version", nil, nil, mayRepeat); probeErr != nil {
		return false, probeErr
	}
	return true, err
}

// Close ends all connections and background work and waits for it.
func (c *Client) Close() {
	c.rpc.Close()
	c.cancel()
	c.rest.close()
}

// endpoints turns the addresses into URLs and decides whether to use TLS.
func endpoints(cfg Config) ([]string, *tls.Config, error) {
	tlsConfig := cfg.TLS
	hosts := make([]string, 0, len(cfg.Addresses))
	for _, addr := range cfg.Addresses {
		host := strings.TrimSuffix(strings.TrimSpace(addr), "/")
		if h, secure := strings.CutPrefix(host, "https://"); secure {
			host = h
			if tlsConfig == nil {
				tlsConfig = &tls.Config{MinVersion: tls.VersionTLS12}
			}
		}
		host = strings.TrimPrefix(host, "http://")
		if _, _, err := net.SplitHostPort(host); err != nil {
			return nil, nil, failure.Wrap(err, failure.Usage, "read pd address", addr)
		}
		hosts = append(hosts, host)
	}
	if len(hosts) == 0 {
		return nil, nil, failure.New(failure.Usage, "read pd address", "", "no address").
			WithHint("give PD's address, host:2379")
	}
	scheme := "http://"
	if tlsConfig != nil {
		scheme = "https://"
	}
	for i := range hosts {
		hosts[i] = scheme + hosts[i]
	}
	return hosts, tlsConfig, nil
}

// dialPlain connects without TLS. It ignores proxies in the environment: PD is on the cluster's network.
func dialPlain(dial reach.Dial) reach.Dial {
	if dial == nil {
		dial = reach.New(reach.Config{}).Dial
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		return dial(ctx, address)
	}
}

// dialer connects for gRPC. pd/client takes certificates only as files, so TLS is done here, below it. The server's
// certificate must match the name in address, whatever address is dialled.
func dialer(tlsConfig *tls.Config, dial reach.Dial) func(context.Context, string) (net.Conn, error) {
	if tlsConfig == nil {
		return dial
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		conn, err := dial(ctx, address)
		if err != nil {
			return nil, err
		}
		cfg := tlsConfig.Clone()
		cfg.NextProtos = []string{"h2"}
		if cfg.ServerName == "" {
			if cfg.ServerName, _, err = net.SplitHostPort(address); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
		}
		secure := tls.Client(conn, cfg)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return secure, nil
	}
}
