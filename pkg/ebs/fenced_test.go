package ebs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/cluster"
	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
)

// In a process whose lock is another one's no call that changes something is sent, whichever it is.
func TestFenced_LockLost_NothingIsChanged(t *testing.T) {
	t.Parallel()
	a := newAccount(t)
	source := a.source(t)
	lost := errors.New("the lock is lost")
	ctx := fenced.With(t.Context(), func(context.Context) error { return failure.Wrap(lost, failure.Conflict, "check lock", "c") })
	before := len(a.server.MutatingCalls())
	for name, call := range map[string]func() error{
		"create": func() error { _, err := a.CreateVolume(ctx, request(source, "token")); return err },
		"enable": func() error {
			_, err := a.EnableFastRestore(ctx, []cluster.SnapshotID{source.ID}, []cluster.Zone{"eu-west-1a"})
			return err
		},
		"copy": func() error {
			_, err := a.CopySnapshot(ctx, copyRequest(source))
			return err
		},
		"share": func() error { return a.ShareSnapshot(ctx, source.ID, []string{guestAccount}) },
		"lock": func() error {
			_, err := a.LockSnapshot(ctx, ebs.LockRequest{Snapshot: source.ID, Mode: ebs.LockGovernance, Until: time.Now().AddDate(9, 0, 0)})
			return err
		},
	} {
		err := call()
		require.ErrorIs(t, err, lost, name)
		require.Equal(t, failure.Conflict, failure.KindOf(err), name)
		require.False(t, ebs.MayHaveHappened(err), name)
	}
	require.Len(t, a.server.MutatingCalls(), before)
	_, err := a.FastRestores(ctx, nil)
	require.NoError(t, err, "reading changes nothing")
}
