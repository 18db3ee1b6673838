package pd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/reach"
	"github.com/tisnap/tisnap/pkg/tracing"
)

const apiPrefix = "/pd/api/v1"

// answerTimeout is how long one member may take to start its answer; PD's calls take milliseconds.
const answerTimeout = 5 * time.Second

// statusError is a response other than 200.
type statusError struct {
	status int
	body   string
}

// Error prints the status and PD's text.
func (e *statusError) Error() string { return fmt.Sprintf("pd answered %d: %s", e.status, e.body) }

// rest is a client of PD's HTTP API. Any member will do: followers forward to the leader.
type rest struct {
	urls  []string
	first atomic.Int64 // the member that answered last
	http  *http.Client
	log   *zap.Logger
}

func newRest(urls []string, tlsConfig *tls.Config, dial reach.Dial) *rest {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return dial(ctx, address)
		},
		TLSClientConfig:       tlsConfig.Clone(),
		TLSHandshakeTimeout:   dialTimeout,
		ResponseHeaderTimeout: answerTimeout,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   4,
	}
	return &rest{urls: urls, http: &http.Client{Transport: transport}}
}

func (r *rest) close() { r.http.CloseIdleConnections() }

// repeatable is whether a call whose answer was lost may be sent again.
type repeatable bool

const (
	mayRepeat repeatable = true
	once      repeatable = false
)

// call sends one request, moving to the next member if one does not answer, and decodes the answer into out unless
// that is nil. A call with once does not move on if the member may have executed it.
func (r *rest) call(ctx context.Context, method, path string, in, out any, repeat repeatable) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	var failed []error
	start := int(r.first.Load())
	for i := range r.urls {
		if method != http.MethodGet {
			if err := fenced.Check(ctx); err != nil {
				return err
			}
		}
		at := (start + i) % len(r.urls)
		answer, err := r.send(ctx, method, r.urls[at]+path, body, repeat)
		if err == nil {
			r.first.Store(int64(at))
			return decode(answer, out)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		failed = append(failed, err)
		if !tryNext(err, repeat) {
			break
		}
		if i+1 < len(r.urls) {
			r.log.Debug("pd member does not answer, trying the next", zap.String("url", r.urls[at]), zap.Error(err))
		}
	}
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}

func (r *rest) send(
	ctx context.Context, method, url string, body []byte, repeat repeatable,
) (answer []byte, err error) {
	ctx, span := tracing.Call(ctx, "PD "+method, "url.full", url)
	defer func() { span.End(err) }()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if repeat == mayRepeat {
		// A key without a value lets net/http resend the request on a fresh connection if the idle one turns out
		// to be dead, as after PD's restart.
		req.Header["Idempotency-Key"] = nil
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{status: resp.StatusCode, body: plainText(answer)}
	}
	return answer, nil
}

// plainText returns PD's error text, which is mostly a JSON string, sometimes bare.
func plainText(body []byte) string {
	text := strings.TrimSpace(string(body))
	var unquoted string
	if json.Unmarshal(body, &unquoted) == nil {
		text = unquoted
	}
	return text
}

func decode(answer []byte, out any) error {
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

// tryNext reports whether to try another member after err.
func tryNext(err error, repeat repeatable) bool {
	var refused *statusError
	if errors.As(err, &refused) {
		return refused.status == http.StatusServiceUnavailable || refused.status == http.StatusBadGateway ||
			strings.Contains(refused.body, "ErrServerNotStarted") || strings.Contains(refused.body, "ErrRedirect")
	}
	var op *net.OpError
	notSent := errors.As(err, &op) && op.Op == "dial"
	return notSent || repeat == mayRepeat
}

// isTransport reports whether err is from the connection rather than from PD.
func isTransport(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed)
}
