package restore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/runlock"
	"github.com/tisnap/tisnap/pkg/wait"
)

// A run whose lock was lost while the process was suspended learns it before its next step changes anything, long before
// it would renew the lock, and deletes nothing.
func TestRun_LockLostWhileSuspended_NextStepDoesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := within(t)
	sink := &cancelAt{step: "start-tikv", cancel: func() {
		lock, _, err := runlock.Read(ctx, l.store, target())
		require.NoError(t, err)
		require.NoError(t, runlock.Break(ctx, l.store, target(), lock.Epoch))
		require.NoError(t, wait.For(ctx, 2500*time.Millisecond), "a check of the lock counts for 2 s")
	}}
	_, err := l.restore(ctx, t, sink, nil)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "released by another process")
	require.True(t, sink.hit)
	require.Len(t, l.volumes(), 6, "they may be another run's by now")
	made := l.bed.Kube.Get("tidbclusters", "tidb", "copy")
	require.NotNil(t, made)
	require.NotContains(t, made.GetAnnotations(), "tidb.pingcap.com/tikv-volumes-ready", "no store may start")
}
