package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/wait"
)

// retries is how often a request is repeated.
const retries = 3

// Limits bound one request with all its tries. Zero fields use the default.
type Limits struct {
	Total  time.Duration // of all tries together; 30 s
	Answer time.Duration // of one answer; 8 s
	Wait   time.Duration // before the second try, then doubling; 500 ms
}

func (l Limits) complete() Limits {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&l.Total, 30 * time.Second}, {&l.Answer, 8 * time.Second}, {&l.Wait, 500 * time.Millisecond}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	return l
}

// CheckURL returns a Usage error for anything but an http or https URL with a host. The error does not repeat the URL.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return failure.New(failure.Usage, "", "", "want an http or https URL with a host")
	}
	return nil
}

// Host is the part of a URL that may be shown: host and port; "" if invalid.
func Host(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

// Client sends requests within its limits. It keeps no connections and is safe for concurrent use.
type Client struct {
	limits Limits
}

// New makes a client.
func New(l Limits) *Client { return &Client{limits: l.complete()} }

// Do sends the request up to four times, after connection errors, 429 and 5xx. It respects Retry-After up to eight
// times the first wait. It returns a 2xx answer, with at most 64 KiB of its body read and nothing to close; any other
// is an error. Kinds: Limited for a receiver that did not answer in time, Unknown.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), c.limits.Total)
	defer cancel()
	client := &http.Client{
		Transport:     http.DefaultTransport.(*http.Transport).Clone(), //nolint:errcheck // net/http documents the type
		Timeout:       c.limits.Answer,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	for try := 0; ; try++ {
		resp, err := send(ctx, client, req)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			return resp, nil
		case try == retries || !mayPass(resp, err):
			return nil, err
		}
		if err := wait.For(ctx, c.pause(try, resp)); err != nil {
			return nil, err
		}
	}
}

// send sends the request once. It returns the response, if any, also with an error.
func send(ctx context.Context, client *http.Client, req *http.Request) (*http.Response, error) {
	once := req.Clone(ctx)
	once.Header.Set("User-Agent", "tisnap")
	if req.GetBody != nil {
		body, err := req.GetBody()
		if err != nil {
			return nil, err
		}
		once.Body = body
	}
	resp, err := client.Do(once)
	if err != nil {
		return nil, withoutURL(err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection is closed in order
	_ = resp.Body.Close()
	resp.Body = http.NoBody
	if resp.StatusCode/100 != 2 {
		err = fmt.Errorf("it answered %d", resp.StatusCode)
	}
	return resp, err
}

// mayPass reports whether another try may succeed. An untrusted certificate stays untrusted.
func mayPass(resp *http.Response, err error) bool {
	if resp == nil {
		var untrusted *tls.CertificateVerificationError
		return !errors.As(err, &untrusted)
	}
	return resp.StatusCode == http.StatusTooManyRequests ||
		resp.StatusCode >= 500 && resp.StatusCode != http.StatusNotImplemented
}

// pause returns the time before the next try: it doubles, or is what a busy receiver requests, up to eight times the
// first.
func (c *Client) pause(try int, resp *http.Response) time.Duration {
	longest := 8 * c.limits.Wait
	if resp != nil &&
		(resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable) {
		asked := resp.Header.Get("Retry-After")
		if seconds, err := strconv.ParseInt(asked, 10, 32); err == nil && seconds >= 0 {
			return min(longest, time.Duration(seconds)*time.Second)
		}
		if at, err := http.ParseTime(asked); err == nil {
			return min(longest, max(0, time.Until(at)))
		}
	}
	return min(longest, c.limits.Wait<<try)
}

// withoutURL removes the URL that net/http puts into err.
func withoutURL(err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		return fmt.Errorf("%s: %w", strings.ToLower(inner.Op), inner.Err)
	}
	return err
}
