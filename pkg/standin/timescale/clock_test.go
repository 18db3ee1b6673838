package timescale_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/standin/timescale"
)

func TestClock_RunsFactorTimesAsFast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock, start := timescale.New(100), time.Now()
		require.NoError(t, clock.Sleep(t.Context(), 10*time.Minute))
		assert.Equal(t, 6*time.Second, time.Since(start))
		assert.Equal(t, 10*time.Minute, clock.Now().Sub(start))
		assert.Equal(t, time.Second, clock.Real(100*time.Second))
		assert.Equal(t, start.Add(6*time.Second), clock.Wall(start.Add(10*time.Minute)))
		assert.Equal(t, start, timescale.Clock{}.Wall(start))
	})
}

func TestClock_ZeroValueAndBadFactor_RunAtRealSpeed(t *testing.T) {
	t.Parallel()
	assert.InDelta(t, 1, timescale.Clock{}.Factor(), 0)
	assert.InDelta(t, 1, timescale.New(-3).Factor(), 0)
}

func TestSleep_ContextEnds_ReturnsItsError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, timescale.New(1).Sleep(ctx, time.Hour), context.Canceled)
}

func TestAdvance_AllCopies_Jump(t *testing.T) {
	t.Parallel()
	for _, factor := range []float64{1, 100} {
		c := timescale.New(factor)
		same, before := c, c.Now()
		c.Advance(time.Hour)
		assert.GreaterOrEqual(t, same.Now().Sub(before), time.Hour)
		assert.WithinDuration(t, time.Now(), same.Wall(same.Now()), time.Minute)
	}
}
