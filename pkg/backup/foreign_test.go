package backup_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// To open a stream to a store ends another tool's stream there without a word to it: br then cuts without a lease and
// calls it complete. A cluster that another tool holds is refused before any stream is opened.
func TestRun_AnotherToolHoldsTheCluster_IsRefusedAndTheOtherKeepsItsHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	ts, err := r.deps.PD.Now(ctx)
	require.NoError(t, err)
	_, err = r.deps.PD.HoldGC(ctx, "br-4711", ts, time.Minute)
	require.NoError(t, err)
	theirs, err := r.tikv.OpenLease(ctx, r.c.Stores()[0].Addr())
	require.NoError(t, err)
	defer theirs.Close()
	_, err = theirs.Renew(ctx, time.Minute)
	require.NoError(t, err)
	o := r.options()
	_, err = r.run(ctx, t, o)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "br-4711")
	valid, err := theirs.Renew(ctx, time.Minute)
	require.NoError(t, err, "their stream is not ended")
	require.True(t, valid)
	valid, err = theirs.Finish(ctx)
	require.NoError(t, err)
	require.True(t, valid)
}
