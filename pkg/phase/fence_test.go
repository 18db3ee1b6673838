package phase_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/fenced"
	"github.com/tisnap/tisnap/pkg/phase"
)

// A step's calls ask its fence, and those of its undo do not: what is held has to be let go.
func TestStep_Fence_IsAskedByDoAndNotByUndo(t *testing.T) {
	t.Parallel()
	lost := errors.New("the lock is lost")
	undone := false
	step := phase.Step{
		Phase: "p", Name: "s", Deadline: time.Minute,
		Fence: func(context.Context) error { return lost },
		Do:    func(ctx context.Context, _ *phase.Scope) error { return fenced.Check(ctx) },
		Undo: func(ctx context.Context, _ *phase.Scope) error {
			undone = true
			return fenced.Check(ctx)
		},
	}
	err := phase.New(phase.Config{Run: "r", Journal: phase.NoJournal{}}).Run(t.Context(), []phase.Step{step})
	require.ErrorIs(t, err, lost)
	require.EqualError(t, err, "the lock is lost", "the undo has no error")
	require.True(t, undone)
}
