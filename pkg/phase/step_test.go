package phase_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/phase"
)

// A guard is asked at every try; what it refuses is not done.
func TestStep_GuardRefuses_IsNotDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused, asked, done := errors.New("the lock is lost"), 0, 0
		step := phase.Step{
			Phase: "p", Name: "s", Deadline: time.Minute, Retry: true,
			Guard: func(context.Context) error {
				if asked++; asked == 3 {
					return failure.Wrap(refused, failure.Conflict, "check lock", "c")
				}
				return nil
			},
			Do: func(context.Context, *phase.Scope) error {
				done++
				return failure.New(failure.Limited, "do it", "", "busy")
			},
		}
		err := phase.New(phase.Config{Run: "r", Journal: phase.NoJournal{}}).Run(t.Context(), []phase.Step{step})
		require.ErrorIs(t, err, refused)
		require.Equal(t, 2, done)
	})
}
