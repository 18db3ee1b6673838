package kube_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// In a process whose lock is another one's no object is changed: not even in the middle of a method of several calls.
func TestFenced_LockLost_NothingIsChanged(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	target := source("dst")
	lost := errors.New("the lock is lost")
	left := 0 // calls until it is
	ctx := fenced.With(t.Context(), func(context.Context) error {
		if left--; left < 0 {
			return failure.Wrap(lost, failure.Conflict, "check lock", "c")
		}
		return nil
	})
	err := l.client.CreateCluster(ctx, sourceObject(t), kube.Target{Name: target, Run: run})
	require.ErrorIs(t, err, lost)
	require.Equal(t, failure.Conflict, failure.KindOf(err))
	require.Zero(t, l.faults.Calls("kube.create.tidbclusters"))

	require.NoError(t, l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: target, Run: run}))
	left = 1 // the volume is made, and not its claim
	require.ErrorIs(t, l.client.BindVolume(ctx, recordedVolume(t, target)), lost)
	require.Equal(t, 1, l.faults.Calls("kube.create.persistentvolumes"))
	require.Zero(t, l.faults.Calls("kube.create.persistentvolumeclaims"))
}

// A request that is refused for a moment is sent again by this package, and not by a process whose lock is lost meanwhile.
func TestFenced_LockLostBetweenTries_IsNotSentAgain(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	lost, isLost := errors.New("the lock is lost"), atomic.Bool{}
	ctx := fenced.With(t.Context(), func(context.Context) error {
		if isLost.Load() {
			return failure.Wrap(lost, failure.Conflict, "check lock", "c")
		}
		return nil
	})
	require.NoError(t, l.faults.Add(fault.Rule{
		Point: "kube.create.tidbclusters", Position: fault.Before, Code: "Unauthorized", Do: func() { isLost.Store(true) },
	}))
	require.ErrorIs(t, l.client.CreateCluster(ctx, sourceObject(t), kube.Target{Name: source("dst"), Run: run}), lost)
	require.Equal(t, 1, l.faults.Calls("kube.create.tidbclusters"))
}
