package hold

import (
	"context"
	"errors"
	"sync"

	"github.com/tisnap/tisnap/pkg/failure"
)

// each calls f for all items at the same time, waits for all and joins their errors: in a hold nothing
// is left undone because a neighbour failed, or panicked.
func each[T any](ctx context.Context, items []T, f func(context.Context, T) error) error {
	errs := make([]error, len(items))
	var wg sync.WaitGroup
	for i, item := range items {
		wg.Go(func() {
			defer failure.Catch(&errs[i], "hold")
			errs[i] = f(ctx, item)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
