package tikv

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/reach"
)

const (
	// statusTimeout bounds a call to a status port, connecting included, and maxStatusAnswer the size of an answer: the
	// metrics of a store with many regions have some megabytes.
	statusTimeout   = 10 * time.Second
	maxStatusAnswer = 64 << 20

	hintStatus = "make the store's status port (20180 by default) reachable: check network policies and TiKV's " +
		"server.status-addr"
	hintCN = "add the common name of tisnap's certificate to TiKV's security.cert-allowed-cn, or remove that setting"
)

// statusError is a status port's response other than 200.
type statusError struct {
	code int
	text string
}

// Error prints the status and TiKV's text.
func (e *statusError) Error() string {
	return fmt.Sprintf("tikv answered %d: %s", e.code, strings.TrimSpace(e.text))
}

// statusClasses is what a status port's HTTP statuses mean. Any other status is Unknown.
var statusClasses = map[int]class{
	http.StatusUnauthorized:     {failure.Denied, hintCN},
	http.StatusForbidden:        {failure.Denied, hintCN}, // "certificate role error"
	http.StatusNotFound:         {failure.Unready, hintStatus},
	http.StatusMethodNotAllowed: {failure.Unready, hintStatus},
	http.StatusTooManyRequests:  {failure.Limited, ""},
	// TiKV answers 500 to a change that it rejects, and to one that it made but could not write to its file.
	http.StatusInternalServerError: {failure.Unknown, ""},
	http.StatusServiceUnavailable:  {failure.Limited, ""},
}

// newStatusClient makes an HTTP client for status ports, with the stores' dialer and TLS. It uses HTTP/1.1, the only
// version that TiKV serves with TLS, and ignores proxies in the environment: stores are inside the cluster.
func newStatusClient(dial reach.Dial, tlsConfig func() *tls.Config) *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return dial(ctx, address) },
		DialTLSContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dialTLS(ctx, dial, tlsConfig(), address)
		},
		IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 2,
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// dialTLS connects with cfg, which may be known only once there is a cluster.
func dialTLS(ctx context.Context, dial reach.Dial, cfg *tls.Config, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"http/1.1"}
	if cfg.ServerName == "" {
		cfg.ServerName = host
	}
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}

// translateStatus turns an error of a call to a status port into a failure.Error. If ctx ended the call, the error
// is ctx's.
func translateStatus(ctx context.Context, err error, op, address string) error {
	if ended := interrupted(ctx, op, target(address)); ended != nil {
		return ended
	}
	v := classifyStatus(err)
	e := failure.New(v.kind, op, target(address), "%w", failure.Remote(err))
	if v.hint != "" {
		return e.WithHint("%s", v.hint)
	}
	return e
}

func classifyStatus(err error) class {
	var answer *statusError
	if errors.As(err, &answer) {
		return statusClasses[answer.code]
	}
	text := err.Error()
	switch {
	case strings.Contains(text, forwardDenied):
		return class{failure.Denied, hintForward}
	case strings.Contains(text, "x509:") || strings.Contains(text, "tls:"):
		return class{failure.Denied, hintTLS}
	case unresolved(text):
		return class{failure.Unready, hintInside}
	}
	return class{failure.Unready, hintStatus}
}
