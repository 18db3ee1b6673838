package pd_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/pd/pdtest"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// In a process whose lock is another one's no call that changes something is sent, by HTTP or by gRPC.
func TestFenced_LockLost_NothingIsChanged(t *testing.T) {
	t.Parallel()
	faults := &fault.Plan{}
	c := open(t, start(t, pdtest.Config{Faults: faults}).URLs()...)
	lost := errors.New("the lock is lost")
	ctx := fenced.With(t.Context(), func(context.Context) error { return failure.Wrap(lost, failure.Conflict, "check lock", "c") })
	for point, call := range map[string]func(context.Context) error{
		"pd.MarkRecovering": c.MarkRecovering,
		"pd.ResetTS":        func(ctx context.Context) error { return c.RaiseTS(ctx, 1) },
		"pd.UpdateServiceGCSafePoint": func(ctx context.Context) error {
			_, err := c.HoldGC(ctx, "s", 1, time.Minute)
			return errors.Join(err, c.ReleaseGC(ctx, "s"))
		},
	} {
		err := call(ctx)
		require.ErrorIs(t, err, lost, point)
		require.Equal(t, failure.Conflict, failure.KindOf(err), point)
		require.Zero(t, faults.Calls(point), point)
		_ = call(t.Context())
		require.NotZero(t, faults.Calls(point), point)
	}
	_, err := c.Recovering(ctx)
	require.NoError(t, err, "reading changes nothing")
}
