package drill

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// The lock may be lost after the last step, without an error: checks that were not made are no success then, either.
func TestConclude_LostLockWithoutAnError_IsNoSuccess(t *testing.T) {
	t.Parallel()
	r := newResult()
	r.LostLock, r.Checks = true, NotMade
	require.Equal(t, failure.Unproven, failure.KindOf(r.conclude(&Options{}, nil)))
	lost := failure.New(failure.Conflict, "", "", "it has lost its lock")
	require.Equal(t, lost, r.conclude(&Options{}, lost))
}
