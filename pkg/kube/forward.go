package kube

import (
	"net/http"
	"time"

	"k8s.io/client-go/rest"

	"github.com/tisnap/tisnap/pkg/kube/forward"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
)

// upgradePatience is how long the refusal of a port forward is repeated: less than the time that a dial of PD has in
// all, so that the refusal is what the caller sees.
const upgradePatience = time.Second

// Forward makes a forwarder with the client's credentials. Its Close ends it. It contacts nobody.
func (c *Client) Forward() (*forward.Forwarder, error) {
	transport, err := c.upgradeTransport()
	if err != nil {
		return nil, err
	}
	return forward.New(forward.Config{Core: c.core, Upgrades: transport, REST: c.config}), nil
}

// upgradeTransport is for requests that turn their connection into one of streams: with HTTP/1.1, and the credentials,
// proxy and TLS of all other requests.
func (c *Client) upgradeTransport() (http.RoundTripper, error) {
	plain := rest.CopyConfig(c.config)
	plain.NextProtos = []string{"http/1.1"} // an HTTP/2 connection cannot be upgraded
	next, err := rest.TransportFor(plain)
	if err != nil {
		return nil, kubeerr.Usage(err)
	}
	return &refusalTransport{next: askFirst{next}, patience: min(c.patience, upgradePatience), confirm: c.may}, nil
}
