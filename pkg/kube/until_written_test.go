package kube_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// A controller that writes the TidbCluster all the time does not end a restore before its step's deadline.
func TestUpdates_ConflictThatLasts_AreRepeatedUntilTheDeadline(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	target := source("dst")
	require.NoError(t, l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: target, Run: run}))
	const update = "kube.update.tidbclusters"
	start := func(ctx context.Context, name cluster.Name) error { return l.client.StartTiKV(ctx, name) }
	for _, write := range []func(context.Context, cluster.Name) error{start, l.client.LeaveRecovery, l.client.StartTiDB} {
		require.NoError(t, l.faults.Add(fault.Rule{Point: update, Position: fault.Before, Code: "Conflict", Times: 7}))
		require.NoError(t, write(t.Context(), target))
		assert.Empty(t, l.faults.Unreached())
		l.faults.Clear()
	}
	target = source("dst2")
	require.NoError(t, l.client.CreateCluster(t.Context(), sourceObject(t), kube.Target{Name: target, Run: run}))
	require.NoError(t, l.faults.Add(fault.Rule{Point: update, Position: fault.Before, Code: "Conflict", Times: -1}))
	ended, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := l.client.StartTiKV(ended, target)
	assert.Equal(t, failure.Limited, failure.KindOf(err), "%v", err)
	assert.True(t, failure.Transient(err))
	interrupted, interrupt := context.WithCancel(t.Context())
	l.faults.Clear()
	require.NoError(t, l.faults.Add(fault.Rule{Point: update, Position: fault.Before, Code: "Conflict", Times: -1, Do: interrupt}))
	require.ErrorIs(t, l.client.StartTiKV(interrupted, target), context.Canceled)
}
