package failure_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/failure"
)

func TestTransient_NotYet_ByKind(t *testing.T) {
	t.Parallel()
	of := func(k failure.Kind) error { return failure.New(k, "ask", "", "no") }
	cases := []struct {
		name              string
		err               error
		transient, notYet bool
	}{
		{"nil", nil, false, false},
		{"no kind", errors.New("odd"), true, true},
		{"unknown", of(failure.Unknown), true, true},
		{"limited", of(failure.Limited), true, true},
		{"deadline", context.DeadlineExceeded, true, true},
		{"not found", of(failure.NotFound), false, true},
		{"unready", of(failure.Unready), false, true},
		{"usage", of(failure.Usage), false, false},
		{"conflict", of(failure.Conflict), false, false},
		{"denied", of(failure.Denied), false, false},
		{"partial", of(failure.Partial), false, false},
		{"held", of(failure.Held), false, false},
		{"corrupt", of(failure.Corrupt), false, false},
		{"a quota", failure.New(failure.Limited, "make", "", "over the quota").Lasting(), false, false},
		{"a quota, annotated", failure.Annotate(failure.New(failure.Limited, "make", "", "over").Lasting(), "do", "it"), false, false},
		{"a quota among others", failure.Join(of(failure.Limited), failure.New(failure.Limited, "make", "", "over").Lasting()), false, false},
		{"canceled", failure.Wrap(context.Canceled, failure.Unknown, "ask", ""), false, false},
		{"panic", failure.New(failure.Unknown, "ask", "", "%w", &failure.PanicError{Value: 1}), false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.transient, failure.Transient(c.err))
			require.Equal(t, c.notYet, failure.NotYet(c.err))
		})
	}
}
