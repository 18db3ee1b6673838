package kubetest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

// Gateway is between a program and an API server, the stand-in's or a real one, and has some of the answers go wrong.
type Gateway struct {
	dir     string
	address string
	release func() // gives the address back, at which nothing listens while the API server is away
	tls     *tls.Config
	trusted []byte // certificate, in PEM
	proxy   *httputil.ReverseProxy

	mu       sync.Mutex
	server   *http.Server // nil while the API server is away
	token    string
	troubles []*active
	met      []string
	lists    map[string]answer // the last answers to lists, by URL
	done     sync.WaitGroup
	closed   chan struct{}
}

// OpenGateway serves the API server of the kubeconfig on loopback. In dir are then a kubeconfig of its own and the token that
// it names. Close it.
func OpenGateway(ctx context.Context, kubeconfig, dir string) (*Gateway, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.NextProtos = []string{"http/1.1"} // a port forward is an upgrade
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	g := &Gateway{dir: dir, lists: map[string]answer{}, closed: make(chan struct{})}
	g.proxy = &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Del("Authorization") // the gateway's, and not the API server's
		},
		Transport: transport, ModifyResponse: g.change, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0), //nolint:forbidigo // what a reverse proxy takes
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { breakConnection(w) },
	}
	if err := g.certify(); err != nil {
		return nil, err
	}
	if g.address, g.release, err = ReservePort(); err != nil {
		return nil, err
	}
	if err := g.listen(ctx); err != nil {
		g.Close()
		return nil, err
	}
	if err := errors.Join(g.rotate(), os.WriteFile(g.Kubeconfig(), g.kubeconfig(), 0o600)); err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// Kubeconfig is the path of the kubeconfig.
func (g *Gateway) Kubeconfig() string { return filepath.Join(g.dir, "gateway.kubeconfig") }

func (g *Gateway) kubeconfig() []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: gateway
clusters:
- name: gateway
  cluster: {server: "https://%s", certificate-authority-data: %s}
users:
- name: gateway
  user: {tokenFile: %q}
contexts:
- name: gateway
  context: {cluster: gateway, user: gateway}
`, g.address, base64.StdEncoding.EncodeToString(g.trusted), g.tokenFile())
}

func (g *Gateway) tokenFile() string { return filepath.Join(g.dir, "gateway.token") }

// rotate makes another token, the only one that is taken from now on.
func (g *Gateway) rotate() error {
	token := make([]byte, 16)
	_, _ = rand.Read(token) // it never fails
	g.mu.Lock()
	defer g.mu.Unlock()
	g.token = hex.EncodeToString(token)
	next := g.tokenFile() + ".next" // and not in place: a concurrent reader reads a whole one
	if err := os.WriteFile(next, []byte(g.token), 0o600); err != nil {
		return err
	}
	return os.Rename(next, g.tokenFile())
}

// certify makes the certificate: client-go sends no token without TLS.
func (g *Gateway) certify() error {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	g.trusted, g.tls = certificate, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	return err
}

// listen serves at the address, which stays the same.
func (g *Gateway) listen(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", g.address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(g.serve), ReadHeaderTimeout: requestLimit,
		ErrorLog: log.New(io.Discard, "", 0), //nolint:forbidigo // what a server takes: of connections that were broken on purpose
	}
	g.mu.Lock()
	g.server = server
	g.mu.Unlock()
	g.done.Go(func() { _ = server.Serve(tls.NewListener(listener, g.tls)) }) // until it is closed
	return nil
}

// restart breaks all connections, and serves again after a while, unless the gateway is closed.
func (g *Gateway) restart(away time.Duration) {
	g.mu.Lock()
	server := g.server
	g.server = nil
	g.mu.Unlock()
	if server == nil {
		return
	}
	_ = server.Close()
	g.done.Go(func() {
		back := time.NewTimer(away)
		defer back.Stop()
		for {
			select {
			case <-g.closed:
				return
			case <-back.C:
			}
			if g.listen(context.Background()) == nil {
				return
			}
			back.Reset(100 * time.Millisecond) // it cannot listen at this moment
		}
	})
}

// Close breaks all connections and ends what serves them.
func (g *Gateway) Close() {
	close(g.closed)
	g.mu.Lock()
	server := g.server
	g.mu.Unlock()
	if server != nil {
		_ = server.Close()
	}
	g.done.Wait()
	g.release()
}
