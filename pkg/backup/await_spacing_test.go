package backup_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
)

// recentEBS reports that a volume was snapshotted a moment before it is asked.
type recentEBS struct {
	backup.EBS

	ago time.Duration
}

func (e recentEBS) NewestSnapshots(_ context.Context, ids []cluster.VolumeID, _ time.Time) (map[cluster.VolumeID]time.Time, error) {
	return map[cluster.VolumeID]time.Time{ids[0]: time.Now().Add(-e.ago)}, nil
}

// EC2 takes no second snapshot of a volume within 15 s: that is waited for before the cluster is held, and not in the
// hold. The wait is never longer than the one between two attempts.
func TestRun_RightAfterAnother_WaitsBeforeTheHold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ago   time.Duration
		waits bool
	}{
		{"a second ago", time.Second, true},
		{"longer ago", 10 * time.Second, false},
		{"by a clock that is ahead", -time.Second, true},
		{"by a clock that is far ahead", -time.Hour, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.deps.EBS = recentEBS{r.deps.EBS, c.ago}
			o := r.options()
			o.Steady = 4 * time.Second
			begin := time.Now()
			result, err := r.run(t.Context(), t, o)
			require.NoError(t, err)
			r.requireSealed(t, o)
			require.Equal(t, c.waits, strings.Contains(strings.Join(r.events.texts(), "\n"), "EC2 takes no second snapshot"))
			if c.waits {
				require.Greater(t, result.Hold.Start.Sub(begin), 2*time.Second, "before the hold")
			}
		})
	}
}
