package parallel

import (
	"context"
	"sync"

	"github.com/tisnap/tisnap/pkg/failure"
)

// Each calls f once per item, at most limit at the same time (0 or less: all at once), and returns when all calls have
// ended. An error of one item does not stop the others: the result joins the errors
// of all (failure.Join), in the order of the items. A panic in f is the error of its item, with the stack in the chain.
//
// When ctx ends, running calls see it and no more are started: the error of the rest is ctx's cause, joined once
// however many they are.
func Each[T any](ctx context.Context, limit int, items []T, f func(ctx context.Context, i int, item T) error) error {
	if limit <= 0 || limit > len(items) {
		limit = len(items)
	}
	errs := make([]error, len(items)+1)
	room := make(chan struct{}, limit)
	var wg sync.WaitGroup
	for i, item := range items {
		if !enter(ctx, room) {
			errs[len(items)] = context.Cause(ctx)
			break
		}
		wg.Go(func() {
			defer func() { <-room }()
			defer failure.Catch(&errs[i], "run in parallel")
			errs[i] = f(ctx, i, item)
		})
	}
	wg.Wait()
	return failure.Join(errs...)
}

// enter waits for a free slot; false if ctx ends first, or has ended.
func enter(ctx context.Context, room chan<- struct{}) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case room <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}
