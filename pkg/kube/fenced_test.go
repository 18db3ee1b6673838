package kube_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/kube"
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
