package fenced_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/fenced"
)

func TestCheck_AsksTheContext(t *testing.T) {
	t.Parallel()
	require.NoError(t, fenced.Check(t.Context()), "there is no fence to ask")
	require.NoError(t, fenced.Check(fenced.With(t.Context(), nil)))
	lost := errors.New("the lock is another run's")
	var reason error
	ctx := context.WithoutCancel(fenced.With(t.Context(), func(context.Context) error { return reason }))
	require.NoError(t, fenced.Check(ctx))
	reason = lost
	err := fenced.Check(ctx)
	require.ErrorIs(t, err, lost)
	require.EqualError(t, err, "the lock is another run's")
	require.True(t, fenced.Refused(fmt.Errorf("create volume: %w", err)))
	require.False(t, fenced.Refused(lost), "an answer of the other side")
	require.False(t, fenced.Refused(nil))
}

// A stricter ask for one call does not replace the one of its step.
func TestWith_Twice_AsksBoth(t *testing.T) {
	t.Parallel()
	var outer, inner error
	ctx := fenced.With(t.Context(), func(context.Context) error { return outer })
	ctx = fenced.With(ctx, func(context.Context) error { return inner })
	require.NoError(t, fenced.Check(ctx))
	inner = errors.New("the lock was not renewed")
	require.ErrorIs(t, fenced.Check(ctx), inner)
	outer = errors.New("the lock is another run's")
	require.ErrorIs(t, fenced.Check(ctx), outer, "it has read the lock, and so names its owner")
}
