package kubetest

import (
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	protocol "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/tools/portforward"
)

// Barrier is something in front of the API server that does not know SPDY.
type Barrier struct {
	// Status is what it answers to SPDY, with a text of its own. 0: it takes the header away that asks for the upgrade, and
	// the API server answers.
	Status int
}

// BarSPDY puts the barrier there; nil takes it away.
func (s *Server) BarSPDY(b *Barrier) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.barrier = b
}

// upgrade returns the connection over which SPDY is spoken. It is nil if there is none and the answer was written.
func (s *Server) upgrade(w http.ResponseWriter, c call) (net.Conn, error) {
	if c.http.Method == http.MethodGet {
		return s.upgradeWebSocket(w, c)
	}
	s.mu.Lock()
	barrier := s.barrier
	s.mu.Unlock()
	if barrier != nil && barrier.Status != 0 {
		http.Error(w, "<html>no such method</html>", barrier.Status)
		return nil, nil
	}
	if barrier != nil || !strings.EqualFold(c.http.Header.Get("Upgrade"), "SPDY/3.1") {
		return nil, apierrors.NewBadRequest("Upgrade request required")
	}
	hijacker, _ := w.(http.Hijacker)
	conn, _, err := hijacker.Hijack()
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: portforward.k8s.io\r\n\r\n")
	if err != nil {
		_ = conn.Close()
		return nil, nil //nolint:nilerr // no client is left to answer
	}
	return conn, nil
}

// upgradeWebSocket takes SPDY's frames as messages. Since Kubernetes 1.35 the caller needs create beside get.
func (s *Server) upgradeWebSocket(w http.ResponseWriter, c call) (net.Conn, error) {
	if !websocket.IsWebSocketUpgrade(c.http) {
		return nil, apierrors.NewBadRequest("Upgrade request required")
	}
	create := c
	create.verb = "create"
	if !s.allowed(create.verb, create.permitted()) {
		return nil, forbidden(create)
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{protocol.WebsocketsSPDYTunnelingPortForwardV1}}
	conn, err := upgrader.Upgrade(w, c.http, nil)
	if err != nil {
		return nil, nil //nolint:nilerr // the upgrader has answered
	}
	return portforward.NewTunnelingConnection("stand-in", conn), nil
}
