package forward

import (
	"context"
	"errors"
	"net"
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	protocol "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
)

// overWebSocket opens a WebSocket that carries SPDY's frames, which plain HTTP/1.1 proxies let through. API servers
// support it since Kubernetes 1.30, with the verb get on pods/portforward, and since 1.35 with get and create.
func (f *Forwarder) overWebSocket(ctx context.Context, pod types.NamespacedName) (net.Conn, error) {
	transport, holder, err := websocket.RoundTripperFor(f.cfg.REST) // for one connection
	if err != nil {
		return nil, kubeerr.Usage(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.forwardURL(pod), nil)
	if err != nil {
		return nil, failure.Wrap(err, failure.Usage, opForward, pod.String())
	}
	conn, err := websocket.Negotiate(transport, holder, request, protocol.WebsocketsSPDYTunnelingPortForwardV1)
	if err != nil {
		var refused *httpstream.UpgradeFailureError
		if errors.As(err, &refused) {
			err = refused.Cause
		}
		return nil, kubeerr.Wrap(err, opForward, pod.String())
	}
	return portforward.NewTunnelingConnection(pod.String(), conn), nil
}
