package parallel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/tisnap/tisnap/pkg/failure"
	"github.com/tisnap/tisnap/pkg/parallel"
	"github.com/tisnap/tisnap/pkg/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func numbers(n int) []int {
	items := make([]int, n)
	for i := range items {
		items[i] = i
	}
	return items
}

func TestEach_EveryItemOnce_AtMostLimitAtATime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, items, most int }{{3, 20, 3}, {0, 20, 20}, {-1, 5, 5}, {50, 5, 5}, {1, 4, 1}, {4, 0, 0}} {
		t.Run(fmt.Sprintf("%d of %d", c.limit, c.items), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex // of both: the largest number is seen and kept in one
				running, most := 0, 0
				count := func(by int) {
					mu.Lock()
					defer mu.Unlock()
					running += by
					most = max(most, running)
				}
				done := make([]int, c.items)
				require.NoError(t, parallel.Each(t.Context(), c.limit, numbers(c.items), func(ctx context.Context, i, item int) error {
					count(1)
					defer count(-1)
					done[i] += item + 1
					return wait.For(ctx, time.Second)
				}))
				require.Equal(t, c.most, most)
				for i, n := range done {
					require.Equal(t, i+1, n)
				}
			})
		})
	}
}

func TestEach_ErrorsAndPanics_AreAllReported(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	var called atomic.Int64
	err := parallel.Each(t.Context(), 2, numbers(10), func(_ context.Context, i, _ int) error {
		called.Add(1)
		switch i {
		case 2:
			return broken
		case 5:
			panic("a bug")
		case 9:
			return failure.New(failure.Denied, "do it", "nine", "not allowed")
		}
		return nil
	})
	require.EqualValues(t, 10, called.Load(), "one that fails does not stop the others")
	require.ErrorIs(t, err, broken)
	var p *failure.PanicError
	require.ErrorAs(t, err, &p)
	require.Equal(t, "a bug", p.Value)
	require.ErrorContains(t, err, "do it of nine: not allowed")
}

func TestEach_ContextEnds_WhatHasNotBegunIsNotBegun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("the lock is lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		var began []int
		err := parallel.Each(ctx, 1, numbers(5), func(_ context.Context, i, _ int) error {
			began = append(began, i)
			if i == 1 {
				cancel(lost)
			}
			return nil
		})
		require.ErrorIs(t, err, lost)
		require.True(t, slices.Equal([]int{0, 1}, began), "%v", began)
		require.ErrorIs(t, parallel.Each(ctx, 0, numbers(3), func(context.Context, int, int) error {
			t.Error("begun after the end")
			return nil
		}), lost)
	})
}

// There is room for all of them, and yet none begins.
func TestEach_ContextEndedBefore_NothingBegins(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var begun atomic.Int64
	for range 50 { // once, the select that has both room and an end might choose rightly by chance
		err := parallel.Each(ctx, 0, numbers(50), func(context.Context, int, int) error {
			begun.Add(1)
			return nil
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, begun.Load())
	}
}
