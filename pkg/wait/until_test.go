package wait_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tisnap/tisnap/pkg/wait"
)

var (
	errBroken = errors.New("it is broken")
	errYet    = errors.New("not yet")
)

func TestUntil_TriesAtItsPaceUntilItIsDone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		pace wait.Pace
		took time.Duration
	}{
		"every":   {wait.Every(time.Minute), 4 * time.Minute},
		"growing": {wait.Growing(time.Minute, 3*time.Minute), (1 + 2 + 3 + 3) * time.Minute},
	} {
		for end, want := range map[string]error{"well": nil, "with an error": errBroken} {
			t.Run(name+" "+end, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					start, tries := time.Now(), 0
					err := wait.Until(t.Context(), c.pace, func() (bool, error) {
						if tries++; tries < 5 {
							return false, errYet
						}
						return true, want
					})
					require.Equal(t, want, err)
					assert.Equal(t, c.took, time.Since(start))
				})
			})
		}
	}
}

func TestUntil_ContextEnds_ErrorGivesCauseAndLastCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		try  func(ctx context.Context, tries int) error
		text string
		last error
	}{
		"no reason any more": {func(_ context.Context, tries int) error { return []error{errYet, nil}[min(tries, 1)] }, "it is broken", nil},
		"no reason":          {func(context.Context, int) error { return nil }, "it is broken", nil},
		"the last one":       {func(_ context.Context, tries int) error { return []error{errors.New("first"), errYet}[min(tries, 1)] }, "it is broken (last: not yet)", errYet},
		"the end of ctx has no reason": {func(ctx context.Context, tries int) error {
			if tries < 2 {
				return errYet
			}
			<-ctx.Done()
			return ctx.Err()
		}, "it is broken (last: not yet)", errYet},
		"unless there is no other": {func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return ctx.Err()
		}, "it is broken (last: context canceled)", context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Hour, func() { cancel(errBroken) })
				tries := 0
				err := wait.Until(ctx, wait.Every(time.Minute), func() (bool, error) {
					defer func() { tries++ }()
					return false, c.try(ctx, tries)
				})
				require.EqualError(t, err, c.text)
				require.ErrorIs(t, err, errBroken)
				if c.last == nil {
					require.Equal(t, err, wait.Reason(err))
					return
				}
				require.ErrorIs(t, err, c.last)
				require.Equal(t, c.last, wait.Reason(err))
			})
		})
	}
}

// A rate limiter refuses by a deadline that has passed before the context's own timer has fired.
func TestUntil_DeadlineHasPassed_KeepsTheReasonOfTheTryBefore(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancel(t.Context())
	ctx := &overdue{Context: parent}
	err := wait.Until(ctx, wait.Every(time.Nanosecond), func() (bool, error) {
		if ctx.tries++; ctx.tries < 3 {
			return false, errYet
		}
		cancel()
		return false, errBroken
	})
	require.Equal(t, errYet, wait.Reason(err))
}

// overdue is a context whose deadline passes with the third try, and whose end is seen after that try's error.
type overdue struct {
	context.Context //nolint:containedctx // it is one
	tries, asked    int
}

func (o *overdue) Deadline() (time.Time, bool) {
	if o.tries < 3 {
		return time.Now().Add(time.Hour), true
	}
	return time.Now().Add(-time.Second), true
}

func (o *overdue) Err() error {
	if o.tries < 3 {
		return nil
	}
	if o.asked++; o.asked == 1 {
		return nil
	}
	return o.Context.Err()
}

func TestEndOf_IsOfThisUntilAlone(t *testing.T) {
	t.Parallel()
	ended := &wait.Ended{Cause: errBroken, Last: errYet}
	require.Same(t, ended, wait.EndOf(ended))
	require.Equal(t, errYet, wait.Reason(ended))
	for _, err := range []error{nil, errYet, fmt.Errorf("another wait: %w", ended)} {
		require.Nil(t, wait.EndOf(err))
		require.Equal(t, err, wait.Reason(err))
	}
}
