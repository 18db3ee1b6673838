package failure_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestError_Text_NamesOperationAndTarget(t *testing.T) {
	t.Parallel()
	cause := errors.New("boom")
	cases := map[string]*failure.Error{
		"create snapshot of vol-1: boom": {Op: "create snapshot", Target: "vol-1", Err: cause},
		"create snapshot: boom":          {Op: "create snapshot", Err: cause},
		"vol-1: boom":                    {Target: "vol-1", Err: cause},
		"boom":                           {Err: cause},
		"create snapshot of vol-1":       {Op: "create snapshot", Target: "vol-1"},
		"":                               {},
	}
	for want, err := range cases {
		require.EqualError(t, err, want)
	}
}

func TestWrapAndAnnotate_NilStaysNil(t *testing.T) {
	t.Parallel()
	require.NoError(t, failure.Wrap(nil, failure.Held, "op", "target"))
	require.NoError(t, failure.Annotate(nil, "op", "target"))
}

func TestAnnotate_KeepsKindHintAndCause(t *testing.T) {
	t.Parallel()
	inner := failure.New(failure.Denied, "call", "", "no: %w", context.Canceled).WithHint("allow %s", "it")
	err := failure.Annotate(fmt.Errorf("plain: %w", inner), "do", "it")
	require.Equal(t, failure.Denied, failure.KindOf(err))
	require.Equal(t, "allow it", failure.HintOf(err))
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "do of it: plain: call: no: context canceled")
}

func TestWithHint_LeavesTheOriginalAlone(t *testing.T) {
	t.Parallel()
	e := failure.New(failure.Usage, "op", "", "no")
	require.Equal(t, "try", e.WithHint("try").Hint)
	require.Empty(t, e.Hint)
}

func TestKindOf_MostSerious(t *testing.T) {
	t.Parallel()
	held := failure.New(failure.Held, "release", "tidb/prod", "gone")
	denied := failure.New(failure.Denied, "call", "", "no")
	cases := []struct {
		name string
		err  error
		want failure.Kind
	}{
		{"nil", nil, failure.Unknown},
		{"plain", errors.New("x"), failure.Unknown},
		{"cancelled", context.Canceled, failure.Unknown},
		{"deadline", fmt.Errorf("wait: %w", context.DeadlineExceeded), failure.Limited},
		{"deadline under unknown", failure.Wrap(context.DeadlineExceeded, failure.Unknown, "op", ""), failure.Limited},
		{"deadline under a kind", failure.Wrap(context.DeadlineExceeded, failure.Corrupt, "op", ""), failure.Corrupt},
		{"outermost", failure.Wrap(denied, failure.Conflict, "op", ""), failure.Conflict},
		{"first of joined", errors.Join(errors.New("x"), denied, failure.New(failure.Usage, "", "", "y")), failure.Denied},
		{"held at the top", failure.Wrap(denied, failure.Held, "op", ""), failure.Held},
		{"held behind another", errors.Join(denied, held), failure.Held},
		{"held deep inside", failure.Wrap(fmt.Errorf("a: %w", errors.Join(denied, fmt.Errorf("b: %w", held))), failure.Usage, "op", ""), failure.Held},
		{"held as one of two wrapped", fmt.Errorf("%w and %w", denied, held), failure.Held},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, failure.KindOf(c.err))
			require.Equal(t, c.err != nil, failure.Is(c.err, c.want))
		})
	}
}

func TestHintOf_OutsideFirst(t *testing.T) {
	t.Parallel()
	inner := failure.New(failure.Denied, "call", "", "no").WithHint("inner")
	cases := []struct {
		name string
		err  error
		want string
	}{
		{"nil", nil, ""},
		{"plain", errors.New("x"), ""},
		{"own", inner, "inner"},
		{"inner one", failure.Wrap(fmt.Errorf("a: %w", inner), failure.Unknown, "op", ""), "inner"},
		{"outer one", &failure.Error{Hint: "outer", Err: inner}, "outer"},
		{"none in the chain", failure.New(failure.Usage, "op", "", "x"), ""},
		{"joined", errors.Join(errors.New("x"), inner), "inner"},
		{"joined behind one without", errors.Join(failure.New(failure.Unknown, "op", "", "x"), inner), "inner"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, failure.HintOf(c.err))
		})
	}
}

// A person has to act on Held first, so its hint is the one to show.
func TestHintOf_Held_ComesBeforeTheCause(t *testing.T) {
	t.Parallel()
	cause := failure.New(failure.Denied, "call", "", "no").WithHint("allow it")
	held := failure.New(failure.Held, "release", "tidb/prod", "gone").WithHint("release it by hand")
	require.Equal(t, "release it by hand", failure.HintOf(errors.Join(cause, held)))
}

func TestKind_String_IsStable(t *testing.T) {
	t.Parallel()
	want := []string{"unknown", "usage", "not-found", "unready", "conflict", "denied", "limited", "partial", "held", "corrupt"}
	for i, name := range want {
		require.Equal(t, name, failure.Kind(i).String())
	}
	require.Equal(t, "unknown", failure.Kind(200).String())
}
