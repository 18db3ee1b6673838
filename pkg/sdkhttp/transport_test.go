package sdkhttp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/sdkhttp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// closed is a body as the SDK leaves it after the answer has begun: it is at its end, and reports that in WriteTo by an error.
type closed struct{ io.ReadCloser }

// WriteTo is what smithy-go's body does once it is closed.
func (closed) WriteTo(io.Writer) (int64, error) { return 0, io.EOF }

func TestWrap_BodyThatWasClosed_KeepsTheConnection(t *testing.T) {
	t.Parallel()
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = string(body)
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
	}))
	defer server.Close()
	inner := &http.Transport{}
	defer inner.CloseIdleConnections()
	send := func(by http.RoundTripper) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, closed{io.NopCloser(strings.NewReader("question"))})
		if err != nil {
			return "", err
		}
		r.ContentLength = int64(len("question"))
		answer, err := (&http.Client{Transport: by}).Do(r)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		return string(body), err
	}
	answer, err := send(sdkhttp.Wrap(inner))
	require.NoError(t, err)
	require.Equal(t, "question", got)
	require.Len(t, answer, 1<<20)
}
