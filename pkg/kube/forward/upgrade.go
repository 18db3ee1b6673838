package forward

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/portforward"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube/kubeerr"
)

const (
	opForward = "forward ports of pod"
	// protocolHeader is the header with the port forward protocol (k8s.io/kubelet, pkg/cri/streaming/portforward).
	protocolHeader = "X-Stream-Protocol-Version"
	// maxRefusalBody bounds the body of a refused upgrade.
	maxRefusalBody = 64 << 10
)

// upgrade asks the API server for a SPDY connection to the pod, which needs the verb create on pods/portforward. If a
// proxy blocks SPDY, it tries a WebSocket that carries SPDY's frames and also needs the verb get. The caller closes the
// connection.
func (f *Forwarder) upgrade(ctx context.Context, pod types.NamespacedName) (net.Conn, error) {
	if f.webSocket.Load() {
		return f.overWebSocket(ctx, pod)
	}
	conn, blocked, err := f.overSPDY(ctx, pod)
	if !blocked {
		return conn, err
	}
	conn, second := f.overWebSocket(ctx, pod)
	if second != nil {
		return nil, failure.New(failure.KindOf(second), opForward, pod.String(), "over SPDY: %v; over WebSocket: %v",
			err, second)
	}
	f.webSocket.Store(true)
	return conn, nil
}

// forwardURL is the URL of a pod's portforward subresource.
func (f *Forwarder) forwardURL(pod types.NamespacedName) string {
	return f.cfg.Core.CoreREST().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).
		SubResource("portforward").URL().String()
}

// overSPDY upgrades a connection to SPDY. It is blocked if the request was altered on its way, or the answer is not
// from Kubernetes.
func (f *Forwarder) overSPDY(ctx context.Context, pod types.NamespacedName) (conn net.Conn, blocked bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.forwardURL(pod), nil)
	if err != nil {
		return nil, false, failure.Wrap(err, failure.Usage, opForward, pod.String())
	}
	request.Header.Set("Connection", "Upgrade")
	request.Header.Set("Upgrade", "SPDY/3.1")
	request.Header.Set(protocolHeader, portforward.PortForwardV1Name)
	response, err := f.cfg.Upgrades.RoundTrip(request)
	if err != nil {
		return nil, false, kubeerr.Wrap(err, opForward, pod.String())
	}
	stream, switched := response.Body.(io.ReadWriteCloser)
	if response.StatusCode == http.StatusSwitchingProtocols && switched {
		return &upgraded{ReadWriteCloser: stream}, false, nil
	}
	defer func() { _ = response.Body.Close() }()
	// a truncated body is shown as far as it goes
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusalBody))
	byKubernetes, refusal := upgradeRefusal(response.StatusCode, pod.Name, body)
	return nil, !byKubernetes || apierrors.IsBadRequest(refusal), kubeerr.Wrap(refusal, opForward, pod.String())
}

// upgradeRefusal returns the Status in the body, or one made from a proxy's or a kubelet's plain-text answer.
func upgradeRefusal(code int, pod string, body []byte) (byKubernetes bool, refusal error) {
	status := &metav1.Status{}
	if json.Unmarshal(body, status) == nil && status.Kind == "Status" {
		return true, apierrors.FromObject(status)
	}
	resource := schema.GroupResource{Resource: "pods/portforward"}
	return false, apierrors.NewGenericServerResponse(code, http.MethodPost, resource, pod,
		strings.TrimSpace(string(body)), 0, true)
}

// upgraded is the connection under a port forward. spdystream sets no deadlines on it; Close unblocks Read and Write.
type upgraded struct{ io.ReadWriteCloser }

var errNoDeadline = errors.New("a port forward's connection has no deadline")

// LocalAddr returns an empty forward address.
func (*upgraded) LocalAddr() net.Addr { return forwardAddr("") }

// RemoteAddr returns an empty forward address.
func (*upgraded) RemoteAddr() net.Addr { return forwardAddr("") }

// SetDeadline is not supported.
func (*upgraded) SetDeadline(time.Time) error { return errNoDeadline }

// SetReadDeadline is not supported.
func (*upgraded) SetReadDeadline(time.Time) error { return errNoDeadline }

// SetWriteDeadline is not supported.
func (*upgraded) SetWriteDeadline(time.Time) error { return errNoDeadline }
