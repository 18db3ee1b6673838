package ebs_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/ebs"
	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// What speaks against a call while it waits for EC2's rate, such as a lock that is lost meanwhile, keeps its next try from
// being sent.
func TestBefore_RefusesTheNextTry_NothingMoreIsSent(t *testing.T) {
	t.Parallel()
	lost := failure.New(failure.Conflict, "check lock", "", "it is another run's")
	for name, row := range map[string]struct {
		point string
		call  func(ctx context.Context, a *account, before func() error) error
	}{
		"cut": {"ec2.CreateSnapshots", func(ctx context.Context, a *account, before func() error) error {
			i, volumes := a.instance(t, 1)
			_, err := a.Cut(ctx, ebs.CutRequest{Instance: i, Volumes: volumes, Before: before})
			return err
		}},
		"create volume": {"ec2.CreateVolume", func(ctx context.Context, a *account, before func() error) error {
			req := request(a.source(t), "token")
			req.Before = func(context.Context) error { return before() }
			_, err := a.CreateVolume(ctx, req)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAccount(t)
			a.fault(t, fault.Rule{Point: row.point, Position: fault.Before, Code: "RequestLimitExceeded", Times: -1})
			tries := 0
			calls := 0
			err := row.call(t.Context(), a, func() error {
				if tries++; tries == 1 {
					return nil
				}
				calls = len(a.server.MutatingCalls())
				return lost
			})
			require.ErrorIs(t, err, lost)
			require.Equal(t, failure.Conflict, failure.KindOf(err))
			require.False(t, ebs.MayHaveHappened(err))
			require.Equal(t, 2, tries)
			require.Len(t, a.server.MutatingCalls(), calls)
		})
	}
}
