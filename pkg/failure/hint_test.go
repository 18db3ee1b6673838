package failure_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

// The command that releases the cluster must reach the person, whatever else went wrong before it.
func TestHintOf_HeldBehindOtherErrors_IsItsHint(t *testing.T) {
	t.Parallel()
	held := failure.New(failure.Held, "release", "cluster a/b", "gone").WithHint("run: tisnap release a/b")
	for name, err := range map[string]error{
		"after one without a hint": errors.Join(failure.New(failure.Unknown, "cut", "", "no"), held),
		"after one with a hint":    errors.Join(failure.New(failure.Denied, "cut", "", "no").WithHint("ask"), held),
		"annotated":                fmt.Errorf("undo: %w", failure.Annotate(held, "undo hold", "")),
		"deep":                     errors.Join(errors.New("x"), failure.Wrap(errors.Join(errors.New("y"), held), failure.Unknown, "z", "")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, "run: tisnap release a/b", failure.HintOf(err))
			require.Equal(t, failure.Held, failure.KindOf(err))
		})
	}
}

func TestHintOf_Joined_IsTheFirst(t *testing.T) {
	t.Parallel()
	require.Equal(t, "b", failure.HintOf(errors.Join(errors.New("a"), failure.New(failure.Usage, "", "", "x").WithHint("b"),
		failure.New(failure.Usage, "", "", "y").WithHint("c"))))
	require.Empty(t, failure.HintOf(errors.New("a")))
	require.Empty(t, failure.HintOf(nil))
}

// What ended a run, and what its undo left, have a command each.
func TestHintsOf_StepAndItsUndo_HaveOneEach(t *testing.T) {
	t.Parallel()
	step := failure.New(failure.Denied, "start tikv", "", "no").WithHint("grant the verb")
	undo := failure.New(failure.Limited, "delete volumes", "", "late").WithHint("run: tisnap gc")
	for name, row := range map[string]struct {
		err  error
		want []string
	}{
		"both":           {errors.Join(step, undo), []string{"grant the verb", "run: tisnap gc"}},
		"around both":    {failure.Annotate(errors.Join(step, undo), "restore", "a/b"), []string{"grant the verb", "run: tisnap gc"}},
		"the same twice": {errors.Join(undo, undo), []string{"run: tisnap gc"}},
		"one":            {undo, []string{"run: tisnap gc"}},
		"held first":     {errors.Join(step, failure.New(failure.Held, "", "", "x").WithHint("release")), []string{"release", "grant the verb"}},
		"none":           {errors.New("x"), nil},
		"nil":            {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, row.want, failure.HintsOf(row.err))
		})
	}
}
