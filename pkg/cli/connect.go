package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/forward"
	"github.com/tisnap/tisnap/pkg/objstore"
	"github.com/tisnap/tisnap/pkg/pd"
	"github.com/tisnap/tisnap/pkg/reach"
	"github.com/tisnap/tisnap/pkg/tikv"
)

// connections are the clients that a command opened. close closes them all.
type connections struct {
	global *globalFlags
	log    *zap.Logger
	reach  cluster.AddressMap
	traced bool // the run is recorded
	warn   func(string)

	route     *reach.Route       // nil before Kubernetes is connected
	forwarder *forward.Forwarder // nil if the route has none

	mu     sync.Mutex
	closer []func()
	tls    *tls.Config // of the files, or else of the cluster's secret once it was read
}

func (a *app) connections(log *zap.Logger) (*connections, error) {
	cfg, err := a.global.tls.Config()
	if err != nil {
		return nil, err
	}
	mapped, err := a.global.addressMap()
	if err != nil {
		return nil, err
	}
	warn := func(text string) { _, _ = fmt.Fprintln(a.streams.Err, text) }
	return &connections{global: &a.global, log: log, tls: cfg, reach: mapped, warn: warn}, nil
}

// openStore connects to the storage only, for commands that need nothing else. done closes the connection.
func (a *app) openStore(ctx context.Context) (store objstore.Store, done func(), err error) {
	c, err := a.connections(zap.NewNop())
	if err != nil {
		return nil, nil, err
	}
	if store, err = c.store(ctx); err != nil {
		c.close()
		return nil, nil, err
	}
	return store, c.close, nil
}

func (c *connections) later(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closer = append(c.closer, f)
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.closer) - 1; i >= 0; i-- {
		c.closer[i]()
	}
	c.closer = nil
}

func (c *connections) store(ctx context.Context) (objstore.Store, error) {
	if c.global.storage == "" {
		return nil, failure.New(failure.Usage, "", "", "--storage is missing").
			WithHint("set --storage s3://bucket/prefix or TISNAP_STORAGE")
	}
	return c.storeAt(ctx, c.global.storage, objstore.Config{
		Region: c.global.region, Endpoint: c.global.endpoint, Profile: c.global.profile, Log: c.log,
	})
}

func (c *connections) storeAt(ctx context.Context, url string, config objstore.Config) (objstore.Store, error) {
	store, err := objstore.Open(ctx, url, config)
	if err != nil {
		return nil, err
	}
	if closer, ok := store.(interface{ Close() }); ok {
		c.later(closer.Close)
	}
	return store, nil
}

func (c *connections) kube() (*kube.Client, error) {
	client, err := kube.Open(kube.Config{
		Kubeconfig: c.global.kubeconfig, Context: c.global.context, Namespace: c.global.namespace, AsUser: c.global.as,
		Forwards: c.forwards, ReadClientSecret: c.global.tls == cluster.TLSFiles{},
	})
	if err != nil {
		return nil, err
	}
	c.later(client.Close)
	return client, c.routeBy(client)
}

func (c *connections) ebs(ctx context.Context) (*ebs.Client, error) {
	return c.ebsAt(ctx, ebs.Config{Region: c.global.region})
}

// pd connects to the addresses given by --pd, or else to those in the cluster's status.
func (c *connections) pd(ctx context.Context, fromStatus []string, name cluster.Name) (*pd.Client, error) {
	addresses := fromStatus
	if len(c.global.pd) > 0 {
		addresses = c.global.pd
	}
	if len(addresses) == 0 {
		return nil, failure.New(failure.Unready, "connect to PD", name.String(),
			"the cluster's status has no healthy member").
			WithHint("wait until PD is up, or set --pd")
	}
	c.openWay(ctx, addresses)
	client, err := pd.Open(ctx, pd.Config{Addresses: addresses, TLS: c.clientTLS(), Logger: c.log, Reach: c.dial})
	if err != nil {
		return nil, err
	}
	c.later(client.Close)
	return client, nil
}

func (c *connections) tikv() *tikv.Client {
	client := tikv.Open(tikv.Config{LateTLS: c.clientTLS, Reach: c.dial, Tracing: c.traced})
	c.later(client.Close)
	return client
}

// clusterName parses NAMESPACE/NAME, or NAME in the namespace of --namespace, the kubeconfig's context or the pod,
// exactly as backup does. It contacts nothing, for commands that do not need Kubernetes.
func (g *globalFlags) clusterName(arg string) (cluster.Name, error) {
	namespace := g.namespace
	if namespace == "" && !strings.Contains(arg, "/") {
		var err error
		if namespace, err = kube.Namespace(kube.Config{Kubeconfig: g.kubeconfig, Context: g.context}); err != nil {
			return cluster.Name{}, failure.New(failure.Usage, "parse cluster name", arg,
				"cannot determine its namespace: %w", err).
				WithHint("write it as NAMESPACE/NAME")
		}
	}
	return cluster.ParseName(arg, namespace)
}

// addressMap returns the map that --address-map and --resolve define.
func (g *globalFlags) addressMap() (cluster.AddressMap, error) {
	entries := g.resolve
	if g.addressFile != "" {
		text, err := os.ReadFile(g.addressFile)
		if err != nil {
			return cluster.AddressMap{}, failure.Wrap(err, failure.Usage, "read --address-map", g.addressFile)
		}
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); line != "" {
				entries = append(entries, line)
			}
		}
	}
	m, err := cluster.ParseAddressMap(entries)
	return m, failure.Annotate(err, "read --resolve and --address-map", g.addressFile)
}
