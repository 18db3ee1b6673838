package backup_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
)

// One store's set is older than the cut by EC2's own clock: it is of another cut, whatever its tags are.
func TestRun_ASetThatStartedBeforeItWasAskedFor_IsNotSealed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var once sync.Once
	r.ebs.cut = func(_ ebs.CutRequest, call func() ([]ebs.Snapshot, error)) ([]ebs.Snapshot, error) {
		made, err := call()
		once.Do(func() {
			for i := range made {
				made[i].StartedAt = made[i].StartedAt.Add(-10 * time.Minute)
			}
		})
		return made, err
	}
	o := r.options()
	_, err := r.run(t.Context(), t, o)
	require.Equal(t, failure.Corrupt, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "before it was asked for")
	r.requireUndone(t, o)
}

// Another tool begins to hold the cluster after this run's preflight: it is found out before a stream is opened.
func TestRun_AnotherToolBeginsAfterThePreflight_IsRefusedAndKeepsItsHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	ts, err := r.deps.PD.Now(ctx)
	require.NoError(t, err)
	theirs, err := r.tikv.OpenLease(ctx, r.c.Stores()[0].Addr())
	require.NoError(t, err)
	defer theirs.Close()
	var begun error
	r.events.at("connect", func() {
		if _, begun = r.deps.PD.HoldGC(ctx, "br-4711", ts, time.Minute); begun == nil {
			_, begun = theirs.Renew(ctx, time.Minute)
		}
	})
	o := r.options()
	_, err = r.run(ctx, t, o)
	require.NoError(t, begun)
	require.Equal(t, failure.Conflict, failure.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "br-4711")
	valid, err := theirs.Finish(ctx)
	require.NoError(t, err, "their stream is not ended")
	require.True(t, valid)
}
