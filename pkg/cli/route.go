package cli

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/kube/forward"
	"github.com/tisnap/tisnap/pkg/reach"
	"github.com/tisnap/tisnap/pkg/report"
)

// inEveryCluster is a name that resolves inside every Kubernetes cluster.
const inEveryCluster = "kubernetes.default.svc"

// forwards reports whether PD and the stores are, or will be, reached through the API server. A restore asks before its
// cluster has a name.
func (c *connections) forwards(ctx context.Context) bool {
	return c.route != nil && c.route.WillForward(ctx, inEveryCluster)
}

// routeBy routes to PD and the stores through the client's port forwards if --via asks for them, or, with auto, if they
// cannot be reached directly. A pod in the same Kubernetes cluster needs none.
func (c *connections) routeBy(client *kube.Client) error {
	if c.route != nil {
		return nil
	}
	via := c.global.via
	cfg := reach.Config{Via: via, Map: c.reach, Inside: forward.IsClusterAddress, OnForward: c.warnForward}
	if via == reach.PortForward || via == reach.Auto && !client.Inside() {
		forwarder, err := client.Forward()
		if err != nil {
			return err
		}
		c.later(forwarder.Close)
		c.forwarder, cfg.Forward = forwarder, forwarder.Dial
	}
	c.route = reach.New(cfg)
	return nil
}

// warnForward warns that PD's and the stores' addresses cannot be reached from here.
func (c *connections) warnForward(why error) {
	c.warn(
		"PD and the stores cannot be reached from here (" + why.Error() +
			"): connecting through port forwards of Kubernetes' API server; use --via direct to disable")
}

// forwarded returns the report's part about port forwards; nil if there were none.
func (c *connections) forwarded(hold *report.Hold) *report.Forward {
	if c.forwarder == nil {
		return nil
	}
	times := c.forwarder.Times()
	if times.Opened == 0 {
		return nil
	}
	out := &report.Forward{
		Pods: times.Pods, Connections: times.Opened, MaxOpenSeconds: times.MaxOpen.Seconds(),
		RoundTripSeconds: times.RoundTrip.Seconds(), MaxRoundTripSeconds: times.MaxRoundTrip.Seconds(),
	}
	for _, at := range times.When {
		if hold != nil && !at.Before(hold.Start) && at.Sub(hold.Start).Seconds() <= hold.Seconds {
			out.InHold++
		}
	}
	return out
}

// dial connects to PD or a store.
func (c *connections) dial(ctx context.Context, address string) (net.Conn, error) {
	if c.route == nil {
		return reach.New(reach.Config{Map: c.reach}).Dial(ctx, address)
	}
	return c.route.Dial(ctx, address)
}

// wayTimeout bounds the first connection to PD.
const wayTimeout = 15 * time.Second

// openWay connects to PD once if that may take port forwards: finding out, and opening the first one, takes longer than
// PD's client allows for a connection. A failure here recurs there and is reported there.
func (c *connections) openWay(ctx context.Context, addresses []string) {
	if c.forwarder == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wayTimeout)
	defer cancel()
	for _, address := range addresses {
		if _, host, isURL := strings.Cut(address, "://"); isURL {
			address = strings.TrimSuffix(host, "/")
		}
		if conn, err := c.dial(ctx, address); err == nil {
			_ = conn.Close() // nothing was sent
			return
		}
	}
}
