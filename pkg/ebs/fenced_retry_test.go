package ebs_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// A lock that is lost while a call waits for EC2, or while the instance of a cut is described, keeps its next try from
// being sent.
func TestFenced_LockLostMeanwhile_NothingMoreIsSent(t *testing.T) {
	t.Parallel()
	cut := func(ctx context.Context, a *account) error {
		i, volumes := a.instance(t, 1)
		_, err := a.Cut(ctx, ebs.CutRequest{Instance: i, Volumes: volumes})
		return err
	}
	create := func(ctx context.Context, a *account) error {
		_, err := a.CreateVolume(ctx, request(a.source(t), "token"))
		return err
	}
	for name, row := range map[string]struct {
		call   func(context.Context, *account) error
		losing fault.Rule
		point  string
		sent   int
	}{
		"a cut is refused": {
			cut, fault.Rule{Point: "ec2.CreateSnapshots", Position: fault.Before, Code: "RequestLimitExceeded", Times: -1},
			"ec2.CreateSnapshots", 1,
		},
		"its instance is described": {
			cut, fault.Rule{Point: "ec2.DescribeInstances", Position: fault.Slow}, "ec2.CreateSnapshots", 0,
		},
		"a volume is refused": {
			create, fault.Rule{Point: "ec2.CreateVolume", Position: fault.Before, Code: "RequestLimitExceeded", Times: -1},
			"ec2.CreateVolume", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			lost, isLost := errors.New("the lock is lost"), atomic.Bool{}
			row.losing.Do = func() { isLost.Store(true) }
			a.fault(t, row.losing)
			ctx := fenced.With(t.Context(), func(context.Context) error {
				if isLost.Load() {
					return failure.Wrap(lost, failure.Conflict, "check lock", "c")
				}
				return nil
			})
			err := row.call(ctx, a)
			require.ErrorIs(t, err, lost)
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.False(t, ebs.MayHaveHappened(err))
			require.Equal(t, row.sent, a.faults.Calls(row.point))
		})
	}
}
