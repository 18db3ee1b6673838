package notify

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/outbound"
)

// Send posts the summary to the URL. It tries up to four times, after connection errors, 429 and 5xx, and ends within
// half a minute. It does not follow redirects: an event only goes where the user sends it. The error has only the host
// of the URL. Kinds: Usage for an invalid URL, Limited for a receiver that did not answer in time, Unknown.
func Send(ctx context.Context, rawURL string, s Summary, l outbound.Limits) error {
	const op = "send notification"
	if err := outbound.CheckURL(rawURL); err != nil {
		return failure.Annotate(err, op, "")
	}
	target := "receiver " + outbound.Host(rawURL)
	body, err := encode(newEvent(s, time.Now()))
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, rawURL, bytes.NewReader(body))
	if err != nil {
		return failure.New(failure.Usage, op, target, "the URL cannot be used")
	}
	req.Header.Set("Content-Type", ContentType)
	resp, err := outbound.New(l).Do(req)
	if err != nil {
		return failure.Annotate(err, op, target)
	}
	return failure.Annotate(resp.Body.Close(), op, target)
}

// pathEscaped escapes each part of a path.
func pathEscaped(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}
