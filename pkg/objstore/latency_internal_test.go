package objstore

import (
	"bytes"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// far answers after a time.
type far time.Duration

func (f *far) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(time.Duration(*f))
	return &http.Response{}, nil
}

// A large request tells the bandwidth, and a slow answer that the storage was busy: neither is the latency.
func TestLatency_IsThatOfTheFastestSmallRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var way far
		s := &s3Store{watch: &stopwatch{next: &way}}
		require.Zero(t, Latency(s))
		for _, row := range []struct {
			took time.Duration
			size int
			want time.Duration
		}{
			{80 * time.Millisecond, 100, 80 * time.Millisecond},
			{20 * time.Millisecond, smallRequest + 1, 80 * time.Millisecond},
			{45 * time.Millisecond, 0, 45 * time.Millisecond},
			{90 * time.Millisecond, 0, 45 * time.Millisecond},
		} {
			way = far(row.took)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://s3", bytes.NewReader(make([]byte, row.size)))
			require.NoError(t, err)
			answer, err := s.watch.RoundTrip(r) //nolint:bodyclose // it has none
			require.NoError(t, err)
			require.NotNil(t, answer)
			require.Equal(t, row.want, Latency(AskFirst(s)))
		}
	})
}
