package restore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/restore"
	"github.com/tisnap/tisnap/pkg/standin/fault"
)

// One refusal that is gone a moment later does not end a restore before it has begun.
func TestPreflight_OneTransientAnswer_IsTriedAgain(t *testing.T) { //nolint:tparallel // one lab
	t.Parallel()
	l := newLab(t)
	for _, rule := range []fault.Rule{
		{Point: "kube.*", Nth: 1, Code: "ServiceUnavailable"},
		{Point: "kube.*", Nth: 10, Code: "ServiceUnavailable"},
		{Point: "kube.create.selfsubjectaccessreviews", Code: "ServiceUnavailable"},
		{Point: "sts.GetCallerIdentity", Code: "ServiceUnavailable"},
	} {
		t.Run(rule.Point, func(t *testing.T) {
			require.NoError(t, l.faults.Add(rule))
			deps, opts := l.next(t, nil)
			plan, err := restore.MakePlan(t.Context(), deps, opts)
			require.NoError(t, err)
			require.NotEmpty(t, plan.Volumes)
			require.Empty(t, l.faults.Unreached())
		})
	}
}
