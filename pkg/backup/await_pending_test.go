package backup_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/backup"
	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
)

// busyEBS reports for a number of polls that a volume has as many snapshots in progress as EC2 allows.
type busyEBS struct {
	backup.EBS
	polls atomic.Int64
}

func (e *busyEBS) SnapshotsInProgress(_ context.Context, ids []cluster.VolumeID) (map[cluster.VolumeID]int, error) {
	if e.polls.Add(-1) < 0 {
		return map[cluster.VolumeID]int{ids[0]: 4}, nil
	}
	return map[cluster.VolumeID]int{ids[0]: 5}, nil
}

// A volume with five pending snapshots is waited for before the hold, and the backup is not refused.
func TestRun_VolumeWithFivePendingSnapshots_IsWaitedForBeforeTheHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	busy := &busyEBS{EBS: r.deps.EBS}
	busy.polls.Store(3)
	r.deps.EBS = busy
	o := r.options()
	result, err := r.run(t.Context(), t, o)
	require.NoError(t, err)
	r.requireSealed(t, o)
	require.Negative(t, busy.polls.Load())
	require.Contains(t, strings.Join(r.events.texts(), "\n"), "1 volumes have as many snapshots in progress as EC2 allows (vol-")
	require.NotZero(t, result.Hold.Start)
}

func TestRun_VolumeThatStaysBusy_IsNamedAndNothingIsHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	busy := &busyEBS{EBS: r.deps.EBS}
	busy.polls.Store(1 << 40)
	r.deps.EBS = busy
	o := r.options()
	o.PendingTimeout = 300 * time.Millisecond
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	require.Regexp(t, `vol-[0-9a-f]+ has 5`, err.Error())
	require.Contains(t, failure.HintOf(err), "--pending-timeout")
	require.Empty(t, r.c.PD.MutatingCalls())
}
