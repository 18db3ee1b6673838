package testbed

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/tikv/tikvtest"
)

// A testbed at real speed has a real store's waits, and a quick one those in proportion; what a test sets stays.
func TestWaits_AreARealStoresScaled(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		scale       float64
		given       tikvtest.Options
		first, tick time.Duration
		retry       time.Duration
	}{
		"real speed":         {1, tikvtest.Options{}, 10 * time.Second, time.Second, 3 * time.Second},
		"four times as fast": {4, tikvtest.Options{}, 2500 * time.Millisecond, 250 * time.Millisecond, 750 * time.Millisecond},
		"of tests":           {0, tikvtest.Options{}, 500 * time.Millisecond, 100 * time.Millisecond, 150 * time.Millisecond},
		"very fast":          {1000, tikvtest.Options{}, 10 * time.Millisecond, 100 * time.Millisecond, 3 * time.Millisecond},
		"given":              {1, tikvtest.Options{FirstHeartbeat: time.Minute, TickInterval: time.Millisecond, BootstrapRetry: time.Hour}, time.Minute, time.Millisecond, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := waits(row.given, row.scale)
			require.Equal(t, row.first, got.FirstHeartbeat)
			require.Equal(t, row.tick, got.TickInterval)
			require.Equal(t, row.retry, got.BootstrapRetry)
		})
	}
}
