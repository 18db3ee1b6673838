package kube

import (
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tisnap/tisnap/pkg/kube/forward"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
)

// upgradePatience is how long a refused port forward is retried: less than the timeout of a dial of PD, so that the
// caller sees the refusal.
const upgradePatience = time.Second

// Forward makes a forwarder with the client's credentials, without contacting the server. Close ends it.
func (c *Client) Forward() (*forward.Forwarder, error) {
	transport, err := c.upgradeTransport()
	if err != nil {
		return nil, err
	}
	return forward.New(forward.Config{Core: c.core, Upgrades: transport, REST: c.config}), nil
}

// upgradeTransport is for requests that upgrade their connection: HTTP/1.1, with the credentials, proxy and TLS of all
// other requests.
func (c *Client) upgradeTransport() (http.RoundTripper, error) {
	plain := rest.CopyConfig(c.config)
	plain.NextProtos = []string{"http/1.1"} // an HTTP/2 connection cannot be upgraded
	next, err := rest.TransportFor(plain)
	if err != nil {
		return nil, kubeerr.Usage(err)
	}
	return &refusalTransport{next: askFirst{next}, patience: min(c.patience, upgradePatience), confirm: c.may}, nil
}
