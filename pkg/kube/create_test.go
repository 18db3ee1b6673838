package kube_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/kube"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// A creation that is cancelled while the server works on it has its answer before it returns: otherwise the undo could
// look before the object is there, and leave it.
func TestCreate_CancelledUnderWay_IsOverWhenItReturns(t *testing.T) {
	t.Parallel()
	l := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, l.faults.Add(fault.Rule{Point: "kube.create.tidbclusters", Position: fault.Slow, Delay: 300 * time.Millisecond, Do: cancel}))
	target := source("dst")
	_ = l.client.CreateCluster(ctx, sourceObject(t), kube.Target{Name: target, Run: run}) // an error or none: the run was cancelled
	require.NotNil(t, l.server.Get("tidbclusters", target.Namespace, target.Name))
	require.NoError(t, l.client.DeleteCluster(t.Context(), target, run, false))
	require.Nil(t, l.server.Get("tidbclusters", target.Namespace, target.Name))

	require.ErrorIs(t, l.client.CreateCluster(ctx, sourceObject(t), kube.Target{Name: target, Run: run}), context.Canceled)
	require.Nil(t, l.server.Get("tidbclusters", target.Namespace, target.Name), "a run that was cancelled begins nothing")
}
