package objstore

import (
	"bytes"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/wait"
)

// far answers after a time.
type far time.Duration

func (f *far) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{}, wait.For(r.Context(), time.Duration(*f))
}

// A large request shows the bandwidth, and a slow answer that the storage was busy: neither is the latency.
func TestLatency_IsThatOfTheFastestSmallRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var way far
		s := &s3Store{watch: &stopwatch{next: &way}}
		after := func(took time.Duration, size int) time.Duration {
			way = far(took)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://s3", bytes.NewReader(make([]byte, size)))
			require.NoError(t, err)
			_, err = s.watch.RoundTrip(r) //nolint:bodyclose // it has none
			require.NoError(t, err)
			return Latency(AskFirst(s))
		}
		const ms = time.Millisecond
		require.Zero(t, Latency(s))
		require.Equal(t, 80*ms, after(80*ms, 100))
		require.Equal(t, 80*ms, after(20*ms, smallRequest+1))
		require.Equal(t, 45*ms, after(45*ms, 0))
		require.Equal(t, 45*ms, after(90*ms, 0))
	})
}
