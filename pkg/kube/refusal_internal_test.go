package kube

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dialed answers each request with the error of its turn, and with 200 when there is none left. It reads the body that is sent.
type dialed struct {
	errs   []error
	bodies []string
}

// RoundTrip implements http.RoundTripper.
func (d *dialed) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	d.bodies = append(d.bodies, string(body))
	if len(d.errs) >= len(d.bodies) {
		return nil, d.errs[len(d.bodies)-1]
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// An API server that is restarted refuses connections for about a second. Nothing was sent then; a connection that breaks later
// may have sent it.
func TestRefusalTransport_ConnectionIsRefused_IsRepeatedForItsPatience(t *testing.T) {
	t.Parallel()
	away := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	broken := &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	for name, c := range map[string]struct {
		errs     []error
		patience time.Duration
		want     error
		tries    int
	}{
		"it comes back":        {[]error{away, away}, time.Minute, nil, 3},
		"it stays away":        {[]error{away, away}, -time.Second, away, 1},
		"the connection broke": {[]error{broken}, time.Minute, broken, 1},
		"it breaks afterwards": {[]error{away, broken}, time.Minute, broken, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next := &dialed{errs: c.errs}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://server/api/v1/persistentvolumes", strings.NewReader("pv"))
			require.NoError(t, err)
			response, err := (&refusalTransport{next: next, patience: c.patience}).RoundTrip(r)
			require.True(t, errors.Is(err, c.want), "%v", err)
			if err == nil {
				require.NoError(t, response.Body.Close())
			}
			require.Len(t, next.bodies, c.tries)
			for _, body := range next.bodies {
				require.Equal(t, "pv", body, "each try has the whole body")
			}
		})
	}
}
