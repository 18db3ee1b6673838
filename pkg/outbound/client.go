package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hashicorp/go-retryablehttp"

	"github.com/tisnap/tisnap/pkg/failure"
)

// retries is how often a request is sent again.
const retries = 3

// Limits bound one request with all its tries. Zero fields are the default.
type Limits struct {
	Total  time.Duration // of all tries together; 30 s
	Answer time.Duration // of one answer; 8 s
	Wait   time.Duration // before the second try, and it doubles; 500 ms
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

// CheckURL says whether something can be sent there; anything but http and https with a host is Usage. The error does
// not repeat the URL.
func CheckURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return failure.New(failure.Usage, "", "", "want an http or https URL with a host")
	}
	return nil
}

// Host is what may be shown of a URL: host and port; "" if it is none.
func Host(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return u.Host
}

// Client sends requests within its limits. It keeps no connections, and is safe for concurrent use.
type Client struct {
	limits Limits
}

// New makes a client.
func New(l Limits) *Client { return &Client{limits: l.complete()} }

// Do sends the request, up to four times after errors of the connection, 429 and 5xx. A receiver's Retry-After is
// respected up to eight times the first wait. It returns an answer of 2xx, with at most 64 KiB of its body read already
// and nothing to close; any other is an error. Kinds: Limited for a receiver that did not answer in time, Unknown.
func (c *Client) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), c.limits.Total)
	defer cancel()
	repeatable, err := retryablehttp.FromRequest(req.WithContext(ctx))
	if err != nil {
		return nil, withoutURL(err)
	}
	repeatable.Header.Set("User-Agent", "tisnap")
	client := c.client()
	defer client.HTTPClient.CloseIdleConnections()
	resp, err := client.Do(repeatable)
	if err != nil {
		return nil, withoutURL(err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection ends in order
	_ = resp.Body.Close()
	resp.Body = http.NoBody
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("it answered %d", resp.StatusCode)
	}
	return resp, nil
}

func (c *Client) client() *retryablehttp.Client {
	r := retryablehttp.NewClient()
	r.Logger = nil // its lines have the URL
	r.RetryMax, r.RetryWaitMin, r.RetryWaitMax = retries, c.limits.Wait, 8*c.limits.Wait
	r.Backoff = backoff
	r.ErrorHandler = retryablehttp.PassthroughErrorHandler
	r.HTTPClient.Timeout = c.limits.Answer
	r.HTTPClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return r
}

// backoff is the library's, which takes the receiver's Retry-After; one that is longer than the longest wait is cut.
func backoff(low, high time.Duration, attempt int, resp *http.Response) time.Duration {
	return min(high, retryablehttp.DefaultBackoff(low, high, attempt, resp))
}

// withoutURL is err without the URL that net/http puts into it.
func withoutURL(err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		return fmt.Errorf("%s: %w", strings.ToLower(inner.Op), inner.Err)
	}
	return err
}
