package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/wait"
)

func TestFor_WaitsExactly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, wait.For(t.Context(), time.Hour))
		assert.Equal(t, time.Hour, time.Since(start))
	})
}

func TestFor_ContextEnds_ReturnsItsCauseAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the hold is broken")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(broken) })
		start := time.Now()
		require.ErrorIs(t, wait.For(ctx, time.Hour), broken)
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

func TestFor_ContextHasEnded_AlwaysFails(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		require.ErrorIs(t, wait.For(ctx, 0), context.Canceled)
	}
}

func TestForDeadline_WaitsForTheContextsOwnTimer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		wait.ForDeadline(ctx)
		wait.ForDeadline(t.Context())
		require.NoError(t, ctx.Err(), "it was the deadline of something else")
		require.NoError(t, wait.For(t.Context(), time.Minute-time.Millisecond))
		require.NoError(t, ctx.Err())
		wait.ForDeadline(ctx)
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
	})
}

func TestOutlive_EndsThatMuchLater_WithTheCause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("the hold is broken")
		ctx, cancel := context.WithCancelCause(t.Context())
		inner, release := wait.Outlive(ctx, time.Minute)
		defer release()
		start := time.Now()
		cancel(broken)
		require.NoError(t, inner.Err())
		<-inner.Done()
		assert.Equal(t, time.Minute, time.Since(start))
		require.ErrorIs(t, context.Cause(inner), broken)

		alive, release := wait.Outlive(t.Context(), time.Minute)
		release()
		require.Error(t, alive.Err(), "it is released")
	})
}

// A machine that was suspended for a minute has no younger times by its monotonic clock alone.
func TestYounger_Suspended_AskedByBothClocks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	require.True(t, wait.Younger(now.Add(-4*time.Second), 5*time.Second, now))
	require.False(t, wait.Younger(now.Add(-6*time.Second), 5*time.Second, now))
	before := now
	// The first field of a time with both readings has the wall clock's seconds above 30 bits of nanoseconds.
	*(*uint64)(unsafe.Pointer(&before)) -= 60 << 30
	require.Zero(t, now.Sub(before))
	require.Equal(t, time.Minute, now.Round(0).Sub(before.Round(0)))
	require.False(t, wait.Younger(before, 5*time.Second, now))
}
