package failure_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestCatch_Panic_IsTheErrorAndHasTheStack(t *testing.T) {
	t.Parallel()
	work := func() (err error) {
		defer failure.Catch(&err, "hold")
		panic("out of range")
	}
	err := work()
	require.EqualError(t, err, "hold: panic: out of range")
	var caught *failure.PanicError
	require.ErrorAs(t, err, &caught)
	require.Contains(t, string(caught.Stack), "TestCatch_Panic")
	require.NotEmpty(t, failure.HintOf(err))
}

func TestCatch_NoPanic_LeavesTheErrorAlone(t *testing.T) {
	t.Parallel()
	reason := errors.New("refused")
	work := func() (err error) {
		defer failure.Catch(&err, "hold")
		return reason
	}
	require.Equal(t, reason, work())
}
