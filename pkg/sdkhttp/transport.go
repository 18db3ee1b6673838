// Package sdkhttp is what all clients of the AWS SDK need beneath them: its configuration, and what goes between it and
// net/http.
package sdkhttp

import (
	"io"
	"net/http"
)

// Wrap returns a transport that does what t does, with requests whose answer may come before net/http has looked for
// the end of their body.
//
// The SDK closes a request's body as soon as the answer begins. Its body then answers WriteTo, which net/http calls
// once more to see that nothing follows, with io.EOF; for io.Copy that is a failed write, so net/http closes the
// connection, and the rest of the answer is lost: "read tcp …: use of closed network connection". It takes an answer
// that comes within microseconds, or a machine that is busy. Without WriteTo the body is read, and io.EOF is its end.
// Source: safeWriteToReadCloser in https://github.com/aws/smithy-go/blob/v1.28.8/transport/http/internal/io/safe.go.
func Wrap(t http.RoundTripper) http.RoundTripper { return transport{t} }

type transport struct{ next http.RoundTripper }

// RoundTrip sends the request with a body that has no method but Read and Close.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, ok := r.Body.(io.WriterTo); ok {
		same := *r // as RoundTrip must not change its request
		same.Body = struct{ io.ReadCloser }{r.Body}
		r = &same
	}
	return t.next.RoundTrip(r)
}
