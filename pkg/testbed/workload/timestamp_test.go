package workload

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	pd "github.com/tikv/pd/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// cancelling is a PD client that cancels its first timestamps on its own.
type cancelling struct {
	pd.Client
	left int
	code codes.Code
}

func (c *cancelling) GetTS(context.Context) (physical, logical int64, err error) {
	if c.left--; c.left >= 0 {
		return 0, 0, status.Error(c.code, "context canceled")
	}
	return 7, 1, nil
}

// A busy machine looked up PD's leader while the first timestamp was asked for, and a round failed before it began.
func TestNow_CancelledByTheClientItself_IsAskedForAgain(t *testing.T) {
	t.Parallel()
	client := &cancelling{left: 2, code: codes.Canceled}
	ts, err := (&Cluster{pd: client}).Now(t.Context())
	require.NoError(t, err)
	require.NotZero(t, ts)

	_, err = (&Cluster{pd: &cancelling{left: 2, code: codes.Unavailable}}).Now(t.Context())
	require.Error(t, err, "PD's answer is the caller's")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = (&Cluster{pd: &cancelling{left: 99, code: codes.Canceled}}).Now(ctx)
	require.Error(t, err)
}
